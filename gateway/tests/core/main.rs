//! The tests of the core and of the command line, which need neither root nor clang. They are one
//! program, which is compiled and linked once.

#[path = "../common/mod.rs"]
mod common;

mod command_line;
mod laws;
mod rows;
mod shares;
mod simulated;
