//! A simulator with the queue at a link: `narrows run SCENARIO --backend "program:PATH [LINK [LIMIT]]"`.

mod queue;

use std::process::ExitCode;

use narrows_qdisc::AnyConfig;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "bottleneck.forward".into());
    let limit = arguments.next().map_or(Ok(200), |text| text.parse());
    narrows_engine::serve(|plan| {
        let limit = limit.map_err(|_| "LIMIT: is no number of packets")?;
        let link = plan.links.iter_mut().find(|link| link.name == name);
        let link = link.ok_or_else(|| format!("{name}: no such link"))?;
        link.queue = AnyConfig::custom("NAME", move |seed| queue::Slope::new(limit, seed));
        Ok::<(), String>(())
    })
}
