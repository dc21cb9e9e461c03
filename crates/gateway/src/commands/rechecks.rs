//! `check --deep` within `run`: real connections to each server address when it starts, and again after each `check_every`.
//!
//! What needs privileges, a namespace with a client and a gateway of its own before it, is made once, before the daemon gives
//! them up, and stays until it ends. A check is then a connection of that client's, which anybody may make.

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
    /// `None` where there are none, or no longer.
    trial: Option<Trial>,
    every: Duration,
    /// When the last ones began; `None` before the first.
    began: Option<Instant>,
    /// Servers that are still to be tried this time, the next one last.
    left: Vec<SocketAddr>,
    /// The one that is being tried.
    trying: Option<SocketAddr>,
    last: BTreeMap<SocketAddr, Checked>,
}

impl Rechecks {
    /// Gets them ready, where the configuration wants them. That they cannot be made is a warning: the gateway serves without them.
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

    /// Goes on with what is under way, and begins what is due; to be called about once a second. True: something new is known.
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

    /// The last check of each server address.
    pub(super) fn last(&self) -> Vec<Checked> {
        self.last.values().cloned().collect()
    }

    /// Takes a configuration that was read again, and checks at once.
    pub(super) fn reconfigure(&mut self, config: &Config) {
        let Some(trial) = &mut self.trial else { return };
        if let Err(why) = trial.reconfigure(config) {
            impossible(&why);
        }
        self.began = None;
        self.left.clear();
    }

    /// Removes all of it.
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

/// Says what is new.
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
