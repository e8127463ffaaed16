//! Exit codes and signals, nothing else.

fn main() {}
