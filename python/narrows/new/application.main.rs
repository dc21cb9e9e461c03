//! A simulator in whose network somebody at one node types into a shell at another: `narrows run
//! SCENARIO --backend "program:PATH FROM TO"`. The scenario needs traffic between the two.

mod application;

use std::process::ExitCode;

use narrows_sim::plan::Plan;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let nodes = arguments.next().zip(arguments.next());
    narrows_engine::serve(|plan: &mut Plan| {
        let (from, to) = nodes.ok_or("name the two nodes: FROM TO")?;
        application::put(plan, &from, &to, "NAME")
    })
}
