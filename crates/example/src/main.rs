//! A simulator with the example's parts, for `narrows run --backend`:
//!
//! ```text
//! $ cargo build --release -p narrows-example
//! $ narrows run scenarios/dns-behind-fifo.toml \
//!       --backend "program:target/release/narrows-example pi bottleneck.forward 50 60 300"
//! ```
//!
//! The arguments name the parts. Each name is followed by what the part needs:
//!
//! - `pi LINK REFERENCE FLOWS MS`: the PI controller at a link, for a queue of REFERENCE packets,
//!   at least FLOWS flows, and round trips of at most MS milliseconds;
//! - `scalable`: Scalable TCP in all connections;
//! - `typist FROM TO`: somebody at node FROM who types into a shell at node TO.

use std::process::ExitCode;
use std::str::FromStr;

use narrows_example::pi::{Config, Pi};
use narrows_example::scalable::Scalable;
use narrows_example::typing;
use narrows_qdisc::AnyConfig;
use narrows_sim::plan::Plan;
use narrows_sim::tcp::Congestion;
use narrows_units::Span;

fn main() -> ExitCode {
    narrows_engine::serve(|plan| change(plan, &mut std::env::args().skip(1)))
}

fn change(plan: &mut Plan, arguments: &mut impl Iterator<Item = String>) -> Result<(), String> {
    while let Some(part) = arguments.next() {
        match part.as_str() {
            "pi" => {
                let link: String = next(arguments, "pi: LINK")?;
                let reference = next(arguments, "pi: REFERENCE")?;
                let flows = next(arguments, "pi: FLOWS")?;
                let round_trip = Span::from_ms(next(arguments, "pi: MS")?);
                put_pi(plan, &link, reference, flows, round_trip)?;
            }
            "scalable" => {
                for tcp in &mut plan.tcp {
                    tcp.congestion = Congestion::custom("scalable", |_| Scalable);
                }
            }
            "typist" => {
                let from: String = next(arguments, "typist: FROM")?;
                let to: String = next(arguments, "typist: TO")?;
                typing::put(plan, &from, &to, "typist")?;
            }
            _ => return Err(format!("{part}: no such part; hint: one of pi, scalable, typist")),
        }
    }
    Ok(())
}

fn next<T: FromStr>(arguments: &mut impl Iterator<Item = String>, what: &str) -> Result<T, String> {
    let text = arguments.next().ok_or_else(|| format!("{what} is missing"))?;
    text.parse().map_err(|_| format!("{what} cannot be {text:?}"))
}

fn put_pi(
    plan: &mut Plan,
    name: &str,
    reference: u32,
    flows: u32,
    round_trip: Span,
) -> Result<(), String> {
    let names: Vec<_> = plan.links.iter().map(|link| link.name.clone()).collect();
    let link =
        plan.links.iter_mut().find(|link| link.name == name).ok_or_else(|| {
            format!("pi: {name}: no such link; hint: one of {}", names.join(", "))
        })?;
    // Full-sized packets per second, as in the paper.
    let rate = link.rate.as_bps() as f64 / (8.0 * f64::from(link.mtu));
    let config = Config::designed(rate, flows, round_trip, reference);
    config.check().map_err(|why| format!("pi: {why}"))?;
    link.queue = AnyConfig::custom("pi", move |seed| Pi::new(config.clone(), seed));
    Ok(())
}
