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
use narrows_example::typing::{Shell, Typist};
use narrows_qdisc::AnyConfig;
use narrows_sim::plan::{Application, Kind, Plan};
use narrows_sim::tcp::Congestion;
use narrows_units::{Span, Time};

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
                    tcp.congestion = Congestion::custom("scalable", || Scalable);
                }
            }
            "typist" => {
                let from: String = next(arguments, "typist: FROM")?;
                let to: String = next(arguments, "typist: TO")?;
                put_typist(plan, &from, &to)?;
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

fn put_typist(plan: &mut Plan, from: &str, to: &str) -> Result<(), String> {
    let path = |from: &str, to: &str| {
        let ends = |path: &narrows_sim::plan::Path| {
            plan.nodes[path.from] == from && plan.nodes[path.to] == to
        };
        plan.paths.iter().position(ends).ok_or_else(|| {
            format!("typist: the scenario has no traffic from {from} to {to}, and so no path")
        })
    };
    let (there, back) = (path(from, to)?, path(to, from)?);
    if plan.tcp.is_empty() {
        plan.tcp.push(narrows_sim::tcp::Config::profile("linux-6").expect("it is in PROFILES"));
    }
    let shell = plan.applications.len();
    let typist = Typist {
        there,
        back,
        tcp: 0,
        shell,
        start: Time::ZERO + Span::from_secs(1),
        pause: Span::from_ms(200),
        // Five keys per second until the end.
        keys: (plan.end.as_secs_f64() * 5.0) as u32,
    };
    plan.applications
        .push(Application { name: "shell".into(), kind: Kind::custom(Shell { tcp: 0 }) });
    plan.applications.push(Application { name: "typist".into(), kind: Kind::custom(typist) });
    Ok(())
}
