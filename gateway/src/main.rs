//! `narrows-gateway`: stateless TCP in front of any DNS server.

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
