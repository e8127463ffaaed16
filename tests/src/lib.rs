//! Host tests, kill matrix, benches and stand-ins of Hostspan.
