//! `narrows-gateway check`: what this kernel and interface support, and what a run would use. It
//! changes nothing.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ArgMatches;
use narrows_gateway::config::{Config, Mode, UserLink};
use narrows_gateway::filters::{self, Finding};
use narrows_gateway::interface::{Interface, local_addresses};
use narrows_gateway::keys::Secret;
use narrows_gateway::udp_limit::{Asked, Limit, Question, Wanted};
use narrows_gateway::{routes, server};
use serde_json::{Value, json};

use super::{Failure, put};

/// Something that was examined.
struct Item {
    name: String,
    /// Its state, in words.
    words: String,
    value: Value,
}

/// The findings.
#[derive(Default)]
struct Report {
    items: Vec<Item>,
    /// What follows the names of items that are about another interface than the first.
    of: String,
    /// The reasons for which a run would be refused.
    problems: Vec<String>,
    /// What an operator should know.
    warnings: Vec<String>,
    /// The data path that would be used.
    mode: Option<&'static str>,
    /// The data path that would follow if the driver refuses that one.
    next: Option<&'static str>,
    /// A gateway serves the interface now, beside which a run would be refused.
    served: bool,
}

impl Report {
    fn item(&mut self, name: &str, words: impl Into<String>, value: impl Into<Value>) {
        let name = format!("{name}{}", self.of);
        self.items.push(Item { name, words: words.into(), value: value.into() });
    }

    #[cfg(feature = "ebpf")]
    fn yes_no(&mut self, name: &str, value: bool, note: &str) {
        self.item(name, format!("{} ({note})", if value { "yes" } else { "no" }), value);
    }
}

pub(crate) fn check(config: &Config, matches: &ArgMatches) -> Result<(), Failure> {
    // Without a server, it says what the kernel and the interface support.
    if !config.servers.is_empty() {
        config.validate().map_err(Failure::refused)?;
    }
    let question = matches.get_one::<Question>("long-reply");
    let mut report = Report::default();
    if let Some(Err(error)) = config.secret.as_deref().map(Secret::read) {
        report.problems.push(error.to_string());
    }
    let kernel = nix::sys::utsname::uname()
        .map(|about| about.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    report.item("kernel", kernel.as_str(), kernel.as_str());
    if cfg!(not(feature = "ebpf")) {
        report.item("in-kernel data path", "no (built without it)", false);
    }
    if config.mode == Mode::User || (config.mode == Mode::Auto && cfg!(not(feature = "ebpf"))) {
        user_path(config, question, &mut report);
    } else {
        let interfaces = config
            .interfaces
            .iter()
            .map(|name| Interface::find(name))
            .collect::<Result<Vec<_>, _>>();
        let interfaces = interfaces.map_err(Failure::refused)?;
        for (at, interface) in interfaces.iter().enumerate() {
            if at > 0 {
                report.of = format!(" of {}", interface.name);
            }
            interface_is(interface, &mut report);
            kernel_path(config, interface, &mut report);
        }
        report.of.clear();
        beside(config, &mut report);
        report.warnings.extend(routes::caveats(&interfaces));
        servers(config, question, &mut report);
    }
    if matches.get_flag("deep") {
        deeply(config, &mut report);
    }
    let found = packet_filters(config.port);
    report.warnings.extend(found.iter().map(ToString::to_string));
    let ok = report.problems.is_empty();
    let text = if matches.get_flag("json") { as_json(&report, &found) } else { as_text(&report) };
    put(&text);
    if ok { Ok(()) } else { Err(Failure::Quiet) }
}

fn interface_is(interface: &Interface, report: &mut Report) {
    let state = if interface.up { "up" } else { "down" };
    report.item(
        "interface",
        format!("{}, MTU {}, {state}", interface.name, interface.mtu),
        json!({ "name": interface.name, "mtu": interface.mtu, "up": interface.up }),
    );
    if !interface.up {
        report.warnings.push(format!(
            "{} is down; hint: ip link set dev {} up",
            interface.name, interface.name
        ));
    }
}

#[cfg(not(feature = "ebpf"))]
fn deeply(_: &Config, report: &mut Report) {
    report.problems.push(format!("--deep: {}", super::BUILT_WITHOUT));
}

/// Makes real connections to each server address, if no problem is known so far.
#[cfg(feature = "ebpf")]
fn deeply(config: &Config, report: &mut Report) {
    if !report.problems.is_empty() || config.mode == Mode::User {
        let words = "not tried (mode user, or a run would be refused)";
        return report.item("deep check", words, Value::Null);
    }
    let outcomes = match super::deep::check(config) {
        Ok(outcomes) => outcomes,
        Err(error) => return report.problems.push(format!("--deep: {error}")),
    };
    let good = outcomes.iter().filter(|outcome| outcome.failed.is_none());
    let good: Vec<String> = good.map(|outcome| outcome.server.to_string()).collect();
    let words = "connections, queries, and what the kernel takes over";
    report.item("deep check", format!("{words}: answered by {}", good.join(", ")), good);
    let (mut words, mut all) = (Vec::new(), Vec::new());
    for (server, burst) in outcomes.iter().filter_map(|it| Some((it.server, it.burst?))) {
        words.push(match burst.is_limited() {
            true => format!("{server} {burst}"),
            false => format!("{server}: none met by {} queries within a second", burst.asked),
        });
        all.push(json!({
            "server": server, "asked": burst.asked, "whole": burst.whole,
            "truncated": burst.truncated, "limited": burst.is_limited(),
        }));
        report.warnings.extend(burst.caveat(server, config.limits.query_rate));
    }
    report.item("rate limit over UDP", words.join(", "), all);
    let failed = |outcome: &super::deep::Outcome| {
        Some(format!("{}: {}", outcome.server, outcome.failed.as_ref()?))
    };
    report.problems.extend(outcomes.iter().filter_map(failed));
}

/// Checks what mode `user` needs: a link, addresses for which the kernel does not answer, and a
/// server elsewhere.
fn user_path(config: &Config, question: Option<&Question>, report: &mut Report) {
    match config.user.link {
        UserLink::Tun => {
            let device = std::path::Path::new("/dev/net/tun").exists();
            report.item(
                "link",
                if device { "tun (/dev/net/tun is there)" } else { "tun (NO /dev/net/tun)" },
                "tun",
            );
            if !device {
                report.problems.push(
                    "there is no /dev/net/tun; hint: modprobe tun, or --user-link packet".into(),
                );
            }
            if Interface::find(config.interface()).is_ok() {
                report.problems.push(format!(
                    "interface {:?} exists, and the gateway makes its own; hint: name a new one, such as dns0",
                    config.interface()
                ));
            }
        }
        UserLink::Packet => {
            report.item("link", "packet", "packet");
            match Interface::find(config.interface()) {
                Ok(interface) => interface_is(&interface, report),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
    }
    let here = local_addresses().unwrap_or_default();
    for address in config.servers.iter().filter(|address| here.contains(address)) {
        report.problems.push(format!(
            "{address} is an address of this machine, so the kernel would answer too; hint: mode user needs an address of its own"
        ));
    }
    let wait = waits(config);
    let mut answering = Vec::new();
    for &place in &config.user.upstream {
        match server::answers_with(place, wait, config.user.proxy_protocol) {
            Ok(()) => answering.push(place),
            Err(error) => report.problems.push(error.to_string()),
        }
        if !server::listens(place) {
            report.warnings.push(format!("{place} does not listen on TCP: {FAILS}"));
        }
    }
    if config.user.upstream.is_empty() {
        report
            .problems
            .push("user.upstream is not set; hint: --user-upstream 127.0.0.1:5353".into());
    }
    let upstream: Vec<String> = config.user.upstream.iter().map(ToString::to_string).collect();
    report.item("upstream", upstream.join(", "), upstream);
    if config.user.proxy_protocol.is_none() {
        // Other clients do not pass this path, so it cannot truncate their replies.
        udp_limits(&answering, config, false, question, report);
    }
    report.mode = Some("user");
}

/// Returns how long a server may take. A run allows more, but here somebody is waiting.
fn waits(config: &Config) -> Duration {
    Duration::from_nanos(config.server_wait.as_ps() / 1000).min(Duration::from_secs(3))
}

/// What fails if the server does not listen on TCP.
const FAILS: &str =
    "what needs its TCP will fail (zone transfers, long replies, several queries at once)";

#[cfg(not(feature = "ebpf"))]
fn kernel_path(config: &Config, _: &Interface, report: &mut Report) {
    report.problems.push(format!("mode {}: {}", config.mode, super::BUILT_WITHOUT));
}

#[cfg(feature = "ebpf")]
fn kernel_path(config: &Config, interface: &Interface, report: &mut Report) {
    use narrows_gateway::caveats::Facts;
    use narrows_gateway::kernel::Gateway;
    use narrows_gateway::kernel::features::Features;
    use narrows_gateway::kernel::links::{XdpMode, program_name};

    match Features::of(interface) {
        Ok(features) => {
            report.yes_no("BTF", features.btf, "types of the kernel, for kfuncs");
            report.yes_no("TCX", features.tcx, "links for tc, Linux 6.6");
            report.yes_no("bpf_cast_to_kern_ctx", features.cast_to_kern_ctx, "Linux 6.2");
            report.yes_no(
                "bpf_sk_assign_tcp_reqsk",
                features.assign_reqsk,
                "hand-off to the kernel's TCP, Linux 6.9",
            );
            report.yes_no("Ethernet", features.ethernet, "headers of the interface's frames");
            let native = match features.native {
                Some(true) => "yes (the driver has it)",
                Some(false) => "no (the driver lacks it: generic XDP)",
                None => "unknown (kernels before 6.3 do not tell: it would be tried)",
            };
            report.item("native XDP", native, features.native);
            let cookies = features.syncookies;
            report.item(
                "tcp_syncookies",
                cookies.map_or("unknown".into(), |value| value.to_string()),
                cookies,
            );
            let there = features.xdp.program.map(|(id, _)| program_name(id));
            report.item("XDP program", there.clone().unwrap_or_else(|| "none".into()), there);
        }
        Err(error) => report.problems.push(error.to_string()),
    }
    match Gateway::probe(config, interface) {
        Ok(modes) => {
            let native = modes.first() == Some(&XdpMode::Native);
            // If there are several interfaces, the one with the fewest features counts.
            if report.mode.is_none() || !native {
                report.mode = modes.first().map(|mode| mode.name());
                report.next = modes.get(1).map(|mode| mode.name());
            }
            report.warnings.extend(Facts::of(interface).caveats(config.mode, native));
        }
        Err(error) => report.problems.push(error.to_string()),
    }
}

#[cfg(not(feature = "ebpf"))]
fn beside(_: &Config, _: &mut Report) {}

/// Notes whether another gateway serves the interface. This is no problem of the machine: an
/// operator may check new settings beside that gateway.
#[cfg(feature = "ebpf")]
fn beside(config: &Config, report: &mut Report) {
    if let Some(error) = narrows_gateway::kernel::Gateway::running(config) {
        report.served = true;
        report.warnings.push(error.to_string());
    }
}

/// Checks whether each server address is on this machine, answers over UDP, and listens on TCP.
fn servers(config: &Config, question: Option<&Question>, report: &mut Report) {
    let here = local_addresses().unwrap_or_default();
    let wait = waits(config);
    let mut all = Vec::new();
    let mut words = Vec::new();
    let mut silent = Vec::new();
    let mut answering = Vec::new();
    for &address in &config.servers {
        let place = SocketAddr::new(address, config.port);
        let local = here.contains(&address);
        if !local {
            let error = server::ServerError::NotHere { address, here: here.clone() }.to_string();
            report.problems.push(error.trim_start_matches("server: ").into());
        }
        let udp = server::answers(place, wait);
        match &udp {
            Ok(()) => answering.push(place),
            Err(error) => silent.push(error.to_string()),
        }
        let tcp = server::listens(place);
        if !tcp {
            report.warnings.push(format!("{place} does not listen on TCP: {FAILS}"));
        }
        let yes = |value: bool| if value { "yes" } else { "NO" };
        words.push(format!(
            "{place} (here: {}, UDP: {}, TCP: {})",
            yes(local),
            yes(udp.is_ok()),
            yes(tcp)
        ));
        all.push(json!({ "address": address, "here": local, "udp": udp.is_ok(), "tcp": tcp }));
    }
    // The other addresses are served, and these as soon as they answer.
    let all_are = silent.len() == config.servers.len();
    if all_are { &mut report.problems } else { &mut report.warnings }.append(&mut silent);
    if all.is_empty() {
        words.push("not named; hint: --server looks at one".into());
    }
    report.item("servers", words.join(", "), all);
    udp_limits(&answering, config, config.truncate_over == 0, question, report);
}

/// Examines how long the replies of these servers over UDP may be. `truncates` is
/// [`Wanted::truncates`].
fn udp_limits(
    servers: &[SocketAddr],
    config: &Config,
    truncates: bool,
    question: Option<&Question>,
    report: &mut Report,
) {
    let wanted = Wanted { edns_size: config.edns_size, truncates, question };
    // One server often has several addresses.
    let mut limits: Vec<(Limit, Vec<String>)> = Vec::new();
    for &server in servers {
        let limit = Limit::ask(server, config.edns_size, question);
        match limits.iter_mut().find(|(other, _)| *other == limit) {
            Some((_, places)) => places.push(server.to_string()),
            None => limits.push((limit, vec![server.to_string()])),
        }
    }
    let mut words = Vec::new();
    let mut all = Vec::new();
    for (limit, places) in &limits {
        let who = places.join(" and ");
        if let Some(said) = limit.words() {
            words.push(format!("{who}: {said}"));
        }
        report.warnings.extend(limit.caveat(&who, wanted));
        all.push(json!({
            "servers": places, "software": limit.software.map(|software| software.name),
            "edns_size": limit.stated, "long_reply": limit.asked.as_ref().map(long_reply),
        }));
    }
    let words = if words.is_empty() { "unknown".into() } else { words.join(", ") };
    report.item("replies over UDP", words, all);
}

/// Returns the reply to the question of `--long-reply`; without a length if that is not known.
fn long_reply(asked: &Asked) -> Value {
    match asked {
        Asked::Whole(length) => json!({ "bytes": length, "truncated": false }),
        Asked::Truncated(length) => json!({ "bytes": length, "truncated": true }),
        Asked::Nothing(rcode) => json!({ "bytes": null, "truncated": null, "rcode": rcode }),
    }
}

/// Returns the rules of nftables and iptables about the port. Usually there are no rules if the
/// tool is missing.
fn packet_filters(port: u16) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut seen = false;
    for (program, name) in [("iptables-save", "iptables"), ("ip6tables-save", "ip6tables")] {
        if let Some(text) = output(program, &[]) {
            seen |= text.contains("(nf_tables)");
            found.extend(filters::iptables(name, &text, port));
        }
    }
    if let Some(text) = output("nft", &["-j", "list", "ruleset"]) {
        if let Ok(ruleset) = serde_json::from_str(&text) {
            found.extend(filters::nft(&ruleset, port, seen));
        }
    }
    found
}

/// Returns what a program prints; `None` if it is missing or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    ["", "/usr/sbin/", "/sbin/"].iter().find_map(|folder| {
        let result = Command::new(format!("{folder}{program}"))
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        result.status.success().then(|| String::from_utf8_lossy(&result.stdout).into_owned())
    })
}

fn as_text(report: &Report) -> String {
    let mut text = String::new();
    for item in &report.items {
        let _ = writeln!(text, "{:<24} {}", item.name, item.words);
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for problem in &report.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    let verdict = match report.mode {
        Some(mode) if report.problems.is_empty() => {
            let would = match report.served {
                true => "a run would be refused while that gateway runs, and then use",
                false => "a run would use",
            };
            match report.next {
                Some(next) => format!("{would}: {mode}, or {next} if the driver refuses"),
                None => format!("{would}: {mode}"),
            }
        }
        _ => "a run would be refused".into(),
    };
    let _ = writeln!(text, "{verdict}");
    text
}

fn as_json(report: &Report, found: &[Finding]) -> String {
    let facts: serde_json::Map<String, Value> = report
        .items
        .iter()
        .map(|item| (item.name.replace([' ', '-'], "_").to_lowercase(), item.value.clone()))
        .collect();
    let bypassed: Vec<Value> = found
        .iter()
        .filter(|finding| finding.bypassed)
        .map(|finding| json!({ "place": finding.place, "rule": finding.rule }))
        .collect();
    json!({
        "mode": report.mode.filter(|_| report.problems.is_empty()),
        "served": report.served,
        "facts": facts, "bypassed": bypassed, "warnings": report.warnings, "problems": report.problems,
    })
    .to_string()
}
