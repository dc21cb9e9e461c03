//! `check --deep` within `run`: real connections to each server address at the start, and again
//! after each `check_every`.
//!
//! What needs privileges, a namespace with a client and a gateway in front of it, is made once,
//! before the daemon gives up its privileges, and stays until the daemon ends. A check is then just
//! a connection of that client, which needs no privilege.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use narrows_gateway::checked::Checked;
use narrows_gateway::config::Config;
use narrows_gateway::interface::Interface;
use narrows_gateway::keys::unix_s;
use narrows_gateway::log::{Level, log};
use serde_json::json;

use super::deep::{Trial, clear};
use super::scratch::Owner;

/// The daemon's checks.
#[derive(Debug)]
pub(super) struct Rechecks {
    /// `None` if there are no checks, or no longer.
    trial: Option<Trial>,
    every: Duration,
    /// When the last round began; `None` before the first.
    began: Option<Instant>,
    /// The servers still to be tried in this round; the last is next.
    left: Vec<SocketAddr>,
    /// The one that is being tried.
    trying: Option<SocketAddr>,
    last: BTreeMap<SocketAddr, Checked>,
}

impl Rechecks {
    /// Prepares the checks if the configuration wants them. If that fails, it only warns, because
    /// the gateway works without them.
    pub(super) fn ready(config: &Config, interface: &Interface) -> Self {
        let every = Duration::from_nanos(config.check_every.as_ps() / 1000);
        let trial = if every.is_zero() {
            clear(config, interface.index);
            None
        } else {
            Trial::make(config, interface.index, Owner::Run).inspect_err(|why| impossible(why)).ok()
        };
        Self { trial, every, began: None, left: Vec::new(), trying: None, last: BTreeMap::new() }
    }

    /// Continues what is under way, and begins what is due. Call this about once a second. Returns
    /// whether there is a new result.
    pub(super) fn tick(&mut self, config: &Config) -> bool {
        let Some(trial) = &mut self.trial else { return false };
        let went_on = (|| {
            let mut news = false;
            if let Some(server) = self.trying {
                let Some(failed) = trial.outcome()? else { return Ok(false) };
                self.trying = None;
                let checked = Checked::new(server, unix_s(), failed);
                let before = self.last.insert(server, checked.clone());
                tell(&checked, before.as_ref());
                news = true;
            }
            if self.left.is_empty() && self.began.is_none_or(|began| began.elapsed() >= self.every)
            {
                self.began = Some(Instant::now());
                let servers = config.servers.iter().rev();
                self.left = servers.map(|&server| SocketAddr::new(server, config.port)).collect();
                self.last.retain(|server, _| self.left.contains(server));
            }
            if let Some(server) = self.left.pop() {
                trial.begin(server)?;
                self.trying = Some(server);
            }
            Ok(news)
        })();
        went_on.unwrap_or_else(|why: String| {
            impossible(&why);
            self.end();
            self.last.clear();
            true
        })
    }

    /// Returns the last check of each server address.
    pub(super) fn last(&self) -> Vec<Checked> {
        self.last.values().cloned().collect()
    }

    /// Applies a configuration that was read again, and checks at once.
    pub(super) fn reconfigure(&mut self, config: &Config) {
        let Some(trial) = &mut self.trial else { return };
        if let Err(why) = trial.reconfigure(config) {
            impossible(&why);
        }
        self.began = None;
        self.left.clear();
    }

    /// Removes the client and its gateway.
    pub(super) fn end(&mut self) {
        let ended = self.trial.take().map_or(Ok(()), Trial::end);
        if let Err(why) = ended {
            log(Level::Warning, "the deep check left something behind", json!({ "why": why }));
        }
    }
}

fn impossible(why: &str) {
    log(
        Level::Warning,
        "the deep check cannot be made",
        json!({ "why": why, "hint": "check_every = \"0 s\" turns it off" }),
    );
}

/// Logs what has changed.
fn tell(checked: &Checked, before: Option<&Checked>) {
    let words = |checked: &Checked| checked.failed.clone();
    if before.map(words) == Some(checked.failed.clone()) {
        return;
    }
    let server = checked.server;
    match &checked.failed {
        Some(why) => {
            log(Level::Warning, "deep check failed", json!({ "server": server, "why": why }));
        }
        None => log(Level::Info, "deep check passed", json!({ "server": server })),
    }
}
