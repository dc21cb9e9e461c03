//! A simulator whose TCP connections have the congestion control: `narrows run SCENARIO --backend
//! program:PATH`.

mod control;

use std::convert::Infallible;
use std::process::ExitCode;

use narrows_sim::tcp::Congestion;

fn main() -> ExitCode {
    narrows_engine::serve(|plan| {
        for tcp in &mut plan.tcp {
            tcp.congestion = Congestion::custom("NAME", |_seed| control::Scalable);
        }
        Ok::<(), Infallible>(())
    })
}
