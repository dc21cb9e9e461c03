//! What `status` and `top` show of a gateway at a point in time, in the kernel or in user space.

mod json;
mod text;

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use narrows_gateway::checked::Checked;
use narrows_gateway::config::Config;
use narrows_gateway::core::{Counter, Latencies, in_share};
use narrows_gateway::user::publish::{self, PublishError};
use serde_json::Value;

pub(crate) use text::took;

use super::Failure;

/// A gateway that is running or attached.
pub(crate) enum Gateway {
    /// In user space, identified by its interface.
    User(String),
    /// In the kernel.
    #[cfg(feature = "ebpf")]
    Kernel(narrows_gateway::interface::Interface, narrows_gateway::kernel::View),
}

/// The state of a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// When it was read, by the boot clock.
    pub(crate) at: Duration,
    pub(crate) interface: String,
    /// All interfaces, including that one.
    pub(crate) interfaces: Vec<String>,
    pub(crate) attached: bool,
    /// Who attached or runs it, if known: mode, version, process, start.
    pub(crate) about: Option<About>,
    /// Whether that process exists.
    pub(crate) has_daemon: bool,
    pub(crate) servers: Vec<IpAddr>,
    pub(crate) port: u16,
    pub(crate) active: bool,
    /// Whether nobody new is served, and open connections go on.
    pub(crate) draining: bool,
    /// The share of the clients that is in force, as a bound of their hashes; `u32::MAX`: all.
    pub(crate) share: u32,
    pub(crate) close_fin: bool,
    pub(crate) syncache: bool,
    pub(crate) axfr_detect: bool,
    pub(crate) mss: [u16; 2],
    /// Connections by state.
    pub(crate) entries: Vec<(String, u64)>,
    pub(crate) room: u64,
    pub(crate) counters: Vec<(Counter, u64)>,
    /// How long the server took for first replies.
    pub(crate) latencies: Latencies,
    /// Connections by client address.
    pub(crate) sources: BTreeMap<IpAddr, u64>,
    /// Shows which of them are new.
    pub(crate) marks: Marks,
    /// The last real connection to each server address, if there was one.
    pub(crate) checks: Vec<Checked>,
    /// Details of the user-space path.
    pub(crate) user: Option<Value>,
}

/// Who attached or runs a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) mode: String,
    pub(crate) version: String,
    pub(crate) pid: u64,
    pub(crate) started_at: u64,
    pub(crate) settings: Value,
}

/// How a picture is compared with an earlier one.
#[derive(Clone, Debug)]
pub(crate) enum Marks {
    /// Connections, each by its client and its query's sequence number.
    Connections(HashSet<(SocketAddr, u32)>),
    /// How many queries each source has asked.
    Asked(BTreeMap<IpAddr, u64>),
}

impl Default for Marks {
    fn default() -> Self {
        Self::Connections(HashSet::new())
    }
}

impl Marks {
    /// New connections since an earlier picture, by source.
    pub(crate) fn since(&self, earlier: &Self) -> BTreeMap<IpAddr, u64> {
        let mut fresh = BTreeMap::new();
        match (self, earlier) {
            (Self::Connections(all), Self::Connections(before)) => {
                for (client, _) in all.difference(before) {
                    *fresh.entry(client.ip()).or_default() += 1;
                }
            }
            (Self::Asked(all), Self::Asked(before)) => {
                for (&source, &asked) in all {
                    let before = before.get(&source).copied().unwrap_or(0);
                    fresh.insert(source, asked.saturating_sub(before));
                }
            }
            // Another data path has replaced it.
            _ => {}
        }
        fresh
    }
}

impl Gateway {
    /// Finds the gateway of the configured interface.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or it may not be read.
    pub(crate) fn find(config: &Config) -> Result<Self, Failure> {
        match publish::read(config.interface()) {
            Ok(Some(_)) => Ok(Self::User(config.interface().to_owned())),
            // Nobody can hide a gateway in the kernel by taking the other's name.
            Ok(None) | Err(PublishError::Taken { .. }) => Self::in_the_kernel(config),
            Err(error) => Err(Failure::refused(error)),
        }
    }

    #[cfg(feature = "ebpf")]
    fn in_the_kernel(config: &Config) -> Result<Self, Failure> {
        use narrows_gateway::interface::Interface;
        use narrows_gateway::kernel::View;
        let interface = Interface::find(config.interface()).map_err(Failure::refused)?;
        let view = View::open(config).map_err(Failure::refused)?;
        Ok(Self::Kernel(interface, view))
    }

    #[cfg(not(feature = "ebpf"))]
    fn in_the_kernel(config: &Config) -> Result<Self, Failure> {
        Err(Failure::refused(format!(
            "no narrows-gateway serves {} in user space, and {}",
            config.interface(),
            super::BUILT_WITHOUT
        )))
    }

    /// Reads its present state.
    ///
    /// # Errors
    ///
    /// Returns an error if it has ended, or cannot be read.
    pub(crate) fn look(&self) -> Result<Picture, Failure> {
        match self {
            Self::User(interface) => {
                let json = publish::read(interface).map_err(Failure::fault)?;
                let ended = || Failure::fault(format!("the gateway of {interface} has ended"));
                Ok(Picture::from_json(&json.ok_or_else(ended)?))
            }
            #[cfg(feature = "ebpf")]
            Self::Kernel(interface, view) => Picture::seen(interface, view).map_err(Failure::fault),
        }
    }
}

impl Picture {
    /// Returns whether new connections of this client are served.
    pub(crate) fn serves(&self, client: IpAddr) -> bool {
        self.active && in_share(client.to_canonical(), self.share)
    }

    /// From the maps of attached programs.
    #[cfg(feature = "ebpf")]
    fn seen(
        interface: &narrows_gateway::interface::Interface,
        view: &narrows_gateway::kernel::View,
    ) -> Result<Self, narrows_gateway::kernel::KernelError> {
        use narrows_gateway::kernel::sweep::STATES;
        let settings = view.settings()?;
        let about = view.about();
        let at = Duration::from_nanos(narrows_gateway::keys::boot_ns());
        let counters = view.counters()?;
        let entries = view.entries()?;
        let mut connections = HashSet::new();
        view.each(|client, flow| {
            connections.insert((client, flow.query_seq));
        })?;
        let states = STATES.iter().zip(entries.states).skip(1);
        let serves_nobody = about.as_ref().is_some_and(|about| about.settings["active"] == false);
        let draining = settings.active != 0 && serves_nobody;
        Ok(Self {
            at,
            interface: interface.name.clone(),
            attached: view.interfaces().iter().all(|name| {
                let found = narrows_gateway::interface::Interface::find(name);
                found.is_ok_and(|interface| view.is_attached(&interface))
            }),
            interfaces: view.interfaces(),
            has_daemon: about.is_some() && view.has_daemon(),
            about: about.map(|about| About {
                mode: about.mode,
                version: about.version,
                pid: about.pid.into(),
                started_at: about.started_at,
                settings: about.settings,
            }),
            servers: view.servers()?.into_iter().flatten().collect(),
            port: settings.port,
            active: settings.active != 0 && !draining,
            draining,
            share: settings.share,
            close_fin: settings.close_fin != 0,
            syncache: settings.syncache != 0,
            axfr_detect: settings.axfr_detect != 0,
            mss: [settings.mss4, settings.mss6],
            entries: states.map(|(name, n)| ((*name).to_owned(), n)).collect(),
            room: view.room().into(),
            counters,
            latencies: view.latencies()?,
            sources: entries.sources,
            marks: Marks::Connections(connections),
            checks: view.checks(),
            user: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_were_not_there_are_new() {
        let of = |numbers: &[u32]| {
            let client = SocketAddr::from(([192, 0, 2, 9], 5));
            Marks::Connections(numbers.iter().map(|&number| (client, number)).collect())
        };
        let fresh = of(&[1, 2, 3]).since(&of(&[3]));
        assert_eq!(fresh, BTreeMap::from([(IpAddr::from([192, 0, 2, 9]), 2)]));
    }
}
