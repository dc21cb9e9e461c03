//! `check --deep`: real connections to each server address, from a separate network namespace.
//!
//! A veth pair joins that namespace to this one. A separate gateway with the configuration's
//! settings serves this end of the pair. So a connection takes the way of any client's: SYN
//! cookies, the query's datagram, the server, the reply, and what the kernel's TCP takes over,
//! through the machine's packet filter and settings. The differences are the interface's name,
//! generic XDP, and the client's address, which is from the network for such tests (198.18.0.0/15,
//! RFC 2544; 2001:2::/48, RFC 5180). All of it disappears with the process, in whatever way that
//! ends.

use std::net::SocketAddr;
use std::time::Duration;

use narrows_gateway::config::{Active, Config, Mode};
use narrows_gateway::core::Counter;
use narrows_gateway::interface::Interface;
use narrows_gateway::kernel::{Gateway, gateway};
use narrows_gateway::rate_limit::{self, Burst};

use super::scratch::{Failed, Owner, Scratch, Step, remove};

/// The result for one server address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) server: SocketAddr,
    /// What failed first, and why; `None`: nothing failed.
    pub(crate) failed: Option<String>,
    /// What came back of a burst over UDP; `None`: it was not tried.
    pub(crate) burst: Option<Burst>,
}

/// Connects to each server address, asks, and returns the results. An error means that it could not
/// try.
pub(crate) fn check(config: &Config) -> Result<Vec<Outcome>, String> {
    let interface = Interface::find(config.interface()).map_err(|error| error.to_string())?;
    let mut trial = Trial::make(config, interface.index, Owner::Check)?;
    let each = config.servers.iter().map(|&address| {
        let server = SocketAddr::new(address, config.port);
        trial.begin(server)?;
        let failed = loop {
            if let Some(failed) = trial.outcome()? {
                break failed;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Outcome { server, failed, burst: None })
    });
    let outcomes = each.collect::<Result<Vec<Outcome>, String>>();
    // Last, because a rate limit that a burst meets goes on for some seconds.
    let rate = config.limits.query_rate;
    let queries = u16::try_from(rate).ok().filter(|&rate| rate > 0).unwrap_or(rate_limit::MOST);
    let outcomes = outcomes.and_then(|mut outcomes| {
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.failed.is_none()) {
            outcome.burst = Some(trial.scratch.burst(outcome.server, queries)?);
        }
        Ok(outcomes)
    });
    trial.end()?;
    outcomes
}

/// A client that can try a server address on demand, behind a gateway of its own.
#[derive(Debug)]
pub(super) struct Trial {
    gateway: Gateway,
    scratch: Scratch,
    own: Config,
    /// The counters before the client began.
    before: Vec<(Counter, u64)>,
}

impl Trial {
    pub(super) fn make(config: &Config, number: u32, owner: Owner) -> Result<Self, String> {
        let scratch = Scratch::make(owner, number)?;
        let own = own_config(config, &scratch.host);
        let host = Interface::find(&scratch.host).map_err(|error| error.to_string())?;
        // Remove what a killed run left.
        let _ = gateway::detach(&own);
        let (gateway, _) =
            Gateway::start(&own, &[host], None).map_err(|error| error.to_string())?;
        Ok(Self { gateway: gateway.quiet(), scratch, own, before: Vec::new() })
    }

    /// Applies a configuration that was read again.
    pub(super) fn reconfigure(&mut self, config: &Config) -> Result<(), String> {
        self.own = own_config(config, &self.scratch.host);
        self.gateway.reconfigure(&self.own, None).map_err(|error| error.to_string())
    }

    /// Makes the client try a server address.
    pub(super) fn begin(&mut self, server: SocketAddr) -> Result<(), String> {
        // This advances keys and clocks.
        self.gateway.refresh(&self.own).map_err(|error| error.to_string())?;
        self.before = self.gateway.counters().unwrap_or_default();
        self.scratch.begin(server, self.own.check_queries)
    }

    /// Returns what failed first, and why, or that nothing did; `None` while the client is still
    /// trying.
    pub(super) fn outcome(&mut self) -> Result<Option<Option<String>>, String> {
        self.gateway.sweep(&self.own).map_err(|error| error.to_string())?;
        let Some(failed) = self.scratch.outcome()? else { return Ok(None) };
        let after = self.gateway.counters().unwrap_or_default();
        let more = |counter| of(&after, counter).saturating_sub(of(&self.before, counter));
        let failed = failed.or_else(|| late(more));
        Ok(Some(failed.map(|failed| format!("{failed}: {}", why(failed.step, more)))))
    }

    /// Removes the namespace, the pair and the gateway.
    pub(super) fn end(self) -> Result<(), String> {
        self.gateway.detach().map_err(|error| error.to_string())
    }
}

/// Removes the client of a run that was killed.
pub(super) fn clear(config: &Config, number: u32) {
    let host = Owner::Run.link(number);
    let _ = gateway::detach(&own_config(config, &host));
    remove(&host);
}

/// Returns the settings for the trial: the configuration's, for this interface, and small.
fn own_config(config: &Config, host: &str) -> Config {
    let mut own = config.clone();
    own.interfaces = vec![host.into()];
    own.mode = Mode::Generic;
    own.active = Active::ALL;
    own.secret = None;
    own.metrics = None;
    own.cache.connections = 1024;
    own.cache.sources = 1024;
    own.cache.ring = 1 << 20;
    own.limits.query_rate = 0;
    own.limits.adoptions = 0;
    own.syncache.active = false;
    own
}

fn of(counters: &[(Counter, u64)], counter: Counter) -> u64 {
    counters.iter().find(|(other, _)| *other == counter).map_or(0, |(_, n)| *n)
}

/// Everything was answered, but the kernel's TCP answered what should go over UDP, after the
/// server's time was over.
fn late(more: impl Fn(Counter) -> u64) -> Option<Failed> {
    let how = "the kernel's TCP had to answer it".into();
    (more(Counter::ToKernelSilent) > 0).then_some(Failed { step: Step::Query, how })
}

/// Returns the likely cause, from what the programs counted.
fn why(step: Step, more: impl Fn(Counter) -> u64) -> &'static str {
    match step {
        Step::Connection if more(Counter::SynPassed) > 0 => {
            "the server has no UDP socket there, or its listener has MPTCP, so the connection is the kernel's, and the kernel refuses it; hint: is the server listening?"
        }
        Step::Connection if more(Counter::SynAside) > 0 => {
            "net.ipv4.tcp_syncookies is 0, so new connections are the kernel's, and the kernel refuses this one; hint: sysctl net.ipv4.tcp_syncookies=1"
        }
        Step::Connection if more(Counter::Syn) == 0 => {
            "no SYN reached the programs; hint: look for rules of bridges or tc that are for all interfaces"
        }
        Step::Connection => "the SYN was answered, but the answer was lost",
        Step::Query if more(Counter::Query) == 0 => "no query reached the programs",
        Step::Query if more(Counter::Reply) + more(Counter::ReplySegmented) == 0 => {
            "its datagram got no reply; hint: look at the packet filter's rules about UDP to the server, and at the server's access list (the client is in 198.18.0.0/15 or 2001:2::/48)"
        }
        Step::Query => "it was answered, but the answer was lost",
        _ if more(Counter::AdoptFailed) > 0 => {
            "the kernel did not take the connection over; hint: does the server listen on TCP, and is net.ipv4.tcp_syncookies on?"
        }
        _ if more(Counter::Adopted) == 0 => {
            "the kernel took nothing over; hint: look for packet-filter rules that drop new TCP connections"
        }
        _ => {
            "the kernel took the connection over, but what it then sends or gets is dropped; hint: look at the packet filter's rules about TCP to the server, and at the server's access list"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_by_what_was_counted() {
        let of = |step, counted: &'static [Counter]| {
            why(step, |counter| u64::from(counted.contains(&counter)))
        };
        assert!(of(Step::Second, &[Counter::AdoptFailed]).contains("tcp_syncookies"));
        assert!(of(Step::Query, &[Counter::Query]).contains("UDP"));
        assert!(of(Step::Many, &[Counter::Adopted]).contains("dropped"));
        assert!(of(Step::Connection, &[]).contains("no SYN"));
    }
}
