//! What `status`, `top` and the metrics show. The daemon reads it from the maps, and so can anyone
//! who may open the pins.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::about::{About, read_checks};
use super::links::{Hook, Link, XdpMode};
use super::pins::Pins;
use super::scan::scan;
use super::skeleton::types::{flow, flow_key, settings as Settings};
use super::sweep::{STATES, address, client};
use super::{KernelError, refusals, settings};
use crate::checked::Checked;
use crate::config::{Config, SERVERS_MAX};
use crate::core::{BUCKETS, Counter, Latencies};
use crate::interface::Interface;

/// An attached gateway, opened through its pins.
#[derive(Debug)]
pub struct View {
    pins: Pins,
    maps: BTreeMap<&'static str, MapHandle>,
    latencies: Option<MapHandle>,
}

/// The entries at a point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Their number by state, in the order of [`STATES`].
    pub states: [u64; STATES.len()],
    /// Their number by client address.
    pub sources: BTreeMap<IpAddr, u64>,
}

const MAPS: [&str; 4] = ["settings", "servers", "flows", "counters"];

impl View {
    /// Opens the gateway that is attached to an interface.
    ///
    /// # Errors
    ///
    /// Returns [`KernelError::NotAttached`] if no program of ours is there, and an error if the
    /// pins cannot be opened.
    pub fn open(config: &Config) -> Result<Self, KernelError> {
        let pins = Pins::of(&config.bpffs, config.interface());
        if !pins.has("settings") {
            // Without privileges the directory cannot be read.
            return Err(match std::fs::read_dir(config.bpffs.join("narrows-gateway")) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    KernelError::Privileges("only root can read the bpf file system")
                }
                _ => refusals::elsewhere(config)
                    .unwrap_or_else(|| KernelError::NotAttached(config.interface().to_owned())),
            });
        }
        let mut maps = BTreeMap::new();
        for name in MAPS {
            let map = MapHandle::from_pinned_path(pins.path(name)).map_err(|error| {
                KernelError::pins(format!("opening {}", pins.path(name).display()), error)
            })?;
            maps.insert(name, map);
        }
        let latencies = MapHandle::from_pinned_path(pins.path("latencies")).ok();
        Ok(Self { pins, maps, latencies })
    }

    /// Returns who attached it, and how; `None` if that information is damaged.
    pub fn about(&self) -> Option<About> {
        About::read(&self.pins)
    }

    /// Returns the last real connection to each server address.
    pub fn checks(&self) -> Vec<Checked> {
        read_checks(&self.pins)
    }

    /// Returns whether a daemon, which rotates keys and removes old entries, serves it now.
    pub fn has_daemon(&self) -> bool {
        matches!(self.pins.lock(), Ok(None))
    }

    /// Returns whether anything of it is still pinned.
    pub fn is_pinned(&self) -> bool {
        self.pins.directory().exists()
    }

    /// Returns whether all three programs are on this interface.
    pub fn is_attached(&self, interface: &Interface) -> bool {
        [Hook::Xdp(XdpMode::Native), Hook::TcIngress, Hook::TcEgress].iter().all(|&hook| {
            Link::open(&self.pins.path(&self.pins.link(hook, &interface.name)))
                .and_then(|link| link.info())
                .is_ok_and(|(index, _)| index == interface.index)
        })
    }

    /// Returns the names of all interfaces that it was attached to, beginning with its first one.
    pub fn interfaces(&self) -> Vec<String> {
        let first = std::iter::once(self.pins.interface().to_owned());
        let links = self.pins.links().into_iter();
        let more = links.filter_map(|name| Some(name.strip_prefix("link_xdp@")?.to_owned()));
        first.chain(more).collect()
    }

    /// Returns the settings that the programs have.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    pub fn settings(&self) -> Result<Settings, KernelError> {
        settings::read(self.map("settings"))
    }

    /// Returns the server addresses by their numbers.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    pub fn servers(&self) -> Result<Vec<Option<IpAddr>>, KernelError> {
        servers(self.map("servers"))
    }

    /// Returns all counters, summed over processors.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    pub fn counters(&self) -> Result<Vec<(Counter, u64)>, KernelError> {
        counters(self.map("counters"))
    }

    /// Returns how long the server took for the first reply to each query.
    ///
    /// # Errors
    ///
    /// Returns an error if that cannot be read. A gateway of an earlier version does not count it.
    pub fn latencies(&self) -> Result<Latencies, KernelError> {
        self.latencies.as_ref().map_or_else(|| Ok(Latencies::default()), latencies)
    }

    /// Goes through all entries.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    pub fn entries(&self) -> Result<Entries, KernelError> {
        let mut entries = Entries::default();
        scan(self.map("flows"), |key: &flow_key, flow: &flow| {
            if let Some(count) = entries.states.get_mut(usize::from(flow.state)) {
                *count += 1;
            }
            *entries.sources.entry(client(key).ip()).or_default() += 1;
        })?;
        Ok(entries)
    }

    /// Calls `on` with each connection's client and entry.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    pub fn each(&self, mut on: impl FnMut(SocketAddr, &flow)) -> Result<(), KernelError> {
        scan(self.map("flows"), |key: &flow_key, flow: &flow| on(client(key), flow))
    }

    /// Returns how many connections there is room for.
    pub fn room(&self) -> u32 {
        self.map("flows").max_entries()
    }

    fn map(&self, name: &str) -> &MapHandle {
        self.maps.get(name).expect("each name of MAPS was opened")
    }
}

/// Returns all counters of this map, summed over processors.
///
/// # Errors
///
/// Returns an error if they cannot be read.
pub fn counters(map: &MapHandle) -> Result<Vec<(Counter, u64)>, KernelError> {
    let mut all = Vec::with_capacity(Counter::ALL.len());
    for (number, &counter) in (0u32..).zip(Counter::ALL) {
        all.push((counter, sum(map, number)?));
    }
    Ok(all)
}

/// Returns how long the server took, from this map, summed over processors.
///
/// # Errors
///
/// Returns an error if they cannot be read.
pub fn latencies(map: &MapHandle) -> Result<Latencies, KernelError> {
    let words: Vec<u64> = (0..=BUCKETS as u32).map(|at| sum(map, at)).collect::<Result<_, _>>()?;
    Ok(Latencies::of(&words).unwrap_or_default())
}

/// Returns an element of a map of numbers, summed over processors.
fn sum(map: &MapHandle, at: u32) -> Result<u64, KernelError> {
    let values = map
        .lookup_percpu(&at.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| KernelError::refused("reading the counters", error))?
        .unwrap_or_default();
    let words = values.iter().filter_map(|value| value.first_chunk::<8>());
    Ok(words.map(|word| u64::from_ne_bytes(*word)).sum())
}

/// Returns the server addresses of this map by their numbers.
///
/// # Errors
///
/// Returns an error if they cannot be read.
pub fn servers(map: &MapHandle) -> Result<Vec<Option<IpAddr>>, KernelError> {
    let mut all = vec![None; SERVERS_MAX];
    for key in map.keys() {
        let value = map
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| KernelError::refused("reading the servers", error))?;
        if let (Some(octets), Some(&number)) =
            (key.first_chunk::<16>(), value.as_ref().and_then(|value| value.first()))
        {
            if let Some(slot) = all.get_mut(usize::from(number)) {
                *slot = Some(address(*octets));
            }
        }
    }
    Ok(all)
}
