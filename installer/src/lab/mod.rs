//! Throwaway hosts on this machine, and the components they need.

pub mod components;
mod images;
