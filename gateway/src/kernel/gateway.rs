//! A running gateway on an interface: changes of its settings, its sweeps, what others read about
//! it, and its end. `start.rs` starts it; `detach.rs` removes what an earlier run left behind.

mod detach;
mod drain;
mod servers;
mod start;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use narrows_units::Span;
use serde_json::json;

pub use detach::detach;
pub use start::Started;

use drain::Drain;
use servers::write_servers;

use super::about::About;
use super::links::{Link, XdpMode};
use super::pins::{Lock, Pins};
use super::settings::Around;
use super::sweep::{Maps, Sweeper, Swept, Times};
use super::{KernelError, settings, view};
use crate::checked::Checked;
use crate::config::{Active, Config};
use crate::core::{Counter, Latencies};
use crate::interface::Interface;
use crate::keys::{Secret, boot_ns, unix_s};
use crate::log::{Level, log};
use crate::routes::Routes;

/// A gateway that is attached to an interface. [`Gateway::detach`] ends it; if it is dropped, it
/// stays attached.
#[derive(Debug)]
pub struct Gateway {
    interfaces: Vec<Interface>,
    routes: Option<Routes>,
    routes_warned: BTreeMap<String, Instant>,
    pins: Pins,
    started_at: u64,
    mode: XdpMode,
    maps: BTreeMap<String, MapHandle>,
    links: Vec<Link>,
    secret: Secret,
    around: Around,
    sweeper: Sweeper,
    swept: Swept,
    swept_at: Option<Instant>,
    sweep_at: Instant,
    drain: Drain,
    /// Answered SYNs, and when the last of them was noticed; `None`: there was none.
    syns: (u64, Option<Instant>),
    quiet: bool,
    _lock: Lock,
}

impl Gateway {
    /// Stops logging what else the machine does, because another gateway of this process logs it.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Stores the results of the checks beside the maps, for `status`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn keep_checks(&self, checks: &[Checked]) -> Result<(), KernelError> {
        super::about::write_checks(&self.pins, checks)
    }

    /// Returns the interfaces that it serves, beginning with its first interface.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns how XDP runs: generic if it is generic on at least one of the interfaces.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Returns the share of the clients whose new connections it serves now: the configured share,
    /// or none while the kernel cannot take connections over.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings cannot be read.
    pub fn share(&self) -> Result<Active, KernelError> {
        settings::read(self.map("settings")?).map(|settings| Active::of_share(settings.share))
    }

    /// Returns the map of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the programs have no map of this name.
    pub fn map(&self, name: &str) -> Result<&MapHandle, KernelError> {
        self.maps
            .get(name)
            .ok_or_else(|| KernelError::refused("opening the maps", format!("no map {name}")))
    }

    /// Writes the settings again: those of the configuration, the current keys, the clock offset
    /// and the interface's MTU.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn refresh(&mut self, config: &Config) -> Result<(), KernelError> {
        for interface in &mut self.interfaces {
            if let Ok(now) = Interface::find(&interface.name) {
                interface.mtu = now.mtu;
            }
        }
        self.look_around();
        self.advance(config.active.any())?;
        let mut wanted = settings::of(
            config,
            &self.interfaces,
            self.mode,
            self.secret.keys(unix_s(), config.rotation),
            self.around,
        );
        self.drain.shape(&mut wanted, self.around);
        let map = self.map("settings")?;
        let mut present = settings::read(map)?;
        // The drift between the clocks is too small to matter; steps matter.
        if present.wall_offset_ns.wrapping_sub(wanted.wall_offset_ns).cast_signed().unsigned_abs()
            < 100_000_000
        {
            present.wall_offset_ns = wanted.wall_offset_ns;
        }
        use settings::Plain;
        if present.bytes() != wanted.bytes() {
            settings::write(map, &wanted)?;
            let anew = |of: &super::skeleton::types::settings| (of.keys[0].k0, of.keys[0].k1);
            if !self.quiet && anew(&present) != anew(&wanted) {
                log(Level::Info, "a new key makes cookies", json!({}));
            }
        }
        Ok(())
    }

    /// Looks at what else the kernel does, and logs what has changed.
    fn look_around(&mut self) {
        let (before, now) = (self.around, Around::look(self.around));
        self.around = now;
        if self.quiet {
            return;
        }
        if now.tracking && !before.tracking {
            log(
                Level::Info,
                "connection tracking is in use: it sees a handshake for each connection that the kernel takes over",
                json!({}),
            );
        }
        if now.no_syncookies && !before.no_syncookies {
            log(
                Level::Error,
                "tcp_syncookies is 0: the kernel takes no connection over, so its own TCP serves all new ones, and idle ones are closed",
                json!({ "hint": "sysctl net.ipv4.tcp_syncookies=1" }),
            );
        } else if before.no_syncookies && !now.no_syncookies {
            log(Level::Info, "tcp_syncookies is on again: new connections are served", json!({}));
        }
    }

    /// Removes and closes entries whose time is over. Call this about once a second. If there are
    /// so many entries that a sweep takes more than half a percent of a processor, it sweeps less
    /// often and returns `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn sweep(&mut self, config: &Config) -> Result<Option<Swept>, KernelError> {
        let started = Instant::now();
        if started < self.sweep_at {
            return Ok(None);
        }
        let ms = |span: Span| u32::try_from(span.as_ps() / 1_000_000_000).unwrap_or(u32::MAX);
        let times = Times {
            now_ms: (boot_ns() / 1_000_000) as u32,
            timeout_ms: ms(config.timeout),
            patience_ms: ms(config.patience),
            idle_ms: ms(config.idle),
            no_adoption: self.around.no_syncookies,
            no_scaled_adoption: self.around.no_window_scaling,
        };
        let servers: Vec<Option<SocketAddr>> = view::servers(self.map("servers")?)?
            .into_iter()
            .map(|address| Some(SocketAddr::new(address?, config.port)))
            .collect();
        let map = |name: &str| {
            let missing = || KernelError::refused("opening the maps", format!("no map {name}"));
            self.maps.get(name).ok_or_else(missing)
        };
        let maps = Maps {
            flows: map("flows")?,
            syncache_buckets: map("syncache_buckets")?,
            syncache_entries: self.maps.get("syncache_entries"),
            opens: self.maps.get("opens"),
        };
        let mut waiting = Vec::new();
        let swept = self.sweeper.sweep(&maps, times, &servers, &mut waiting)?;
        for (client, server) in waiting {
            self.look_at_route(client, server);
        }
        self.count(Counter::Expired, swept.expired)?;
        self.swept = swept;
        self.swept_at = Some(started);
        self.sweep_at = started + (started.elapsed() * SHARE).min(SWEEP_MAX);
        Ok(Some(swept))
    }

    /// Logs the interface through which the reply to a waiting client would leave, if the gateway
    /// does not serve that interface and has not named it recently.
    fn look_at_route(&mut self, client: SocketAddr, server: SocketAddr) {
        let Some(routes) = &mut self.routes else { return };
        let Some(name) = routes.beyond(server, client, &self.interfaces) else { return };
        if self.routes_warned.get(&name).is_some_and(|at| at.elapsed() < ROUTES_AGAIN) {
            return;
        }
        self.routes_warned.insert(name.clone(), Instant::now());
        log(
            Level::Warning,
            "a reply leaves by an interface that is not served, so its client waits until the kernel's TCP answers",
            json!({
                "interface": name, "client": client, "server": server,
                "hint": format!("add --interface {name} to the others"),
            }),
        );
    }

    /// Returns whether all programs are still on their interfaces. An interface may be gone, or
    /// somebody may have detached the programs.
    pub fn is_attached(&self) -> bool {
        // Each interface has three links, in order.
        let of = |at: usize| self.interfaces.get(at / 3).map(|interface| interface.index);
        self.links
            .iter()
            .enumerate()
            .all(|(at, link)| link.info().is_ok_and(|(index, _)| Some(index) == of(at)))
    }

    /// Returns the result of the last sweep.
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// Returns all counters, summed over processors.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    pub fn counters(&self) -> Result<Vec<(Counter, u64)>, KernelError> {
        view::counters(self.map("counters")?)
    }

    /// Returns how long the server took for the first reply to each query.
    ///
    /// # Errors
    ///
    /// Returns an error if that cannot be read.
    pub fn latencies(&self) -> Result<Latencies, KernelError> {
        view::latencies(self.map("latencies")?)
    }

    /// Returns one counter, summed over processors.
    fn total(&self, counter: Counter) -> Result<u64, KernelError> {
        let values = self
            .map("counters")?
            .lookup_percpu(&(counter as u32).to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| KernelError::refused("reading a counter", error))?;
        let of_one = |value: &Vec<u8>| value.first_chunk().map_or(0, |it| u64::from_ne_bytes(*it));
        Ok(values.iter().flatten().map(of_one).sum())
    }

    /// Adds to a counter that the programs do not count.
    fn count(&self, counter: Counter, n: u64) -> Result<(), KernelError> {
        if n == 0 {
            return Ok(());
        }
        let refused = |error: libbpf_rs::Error| KernelError::refused("counting", error);
        let map = self.map("counters")?;
        let key = (counter as u32).to_ne_bytes();
        let Some(mut values) = map.lookup_percpu(&key, MapFlags::ANY).map_err(refused)? else {
            return Ok(());
        };
        if let Some(first) = values.first_mut().and_then(|value| value.first_chunk_mut::<8>()) {
            *first = (u64::from_ne_bytes(*first) + n).to_ne_bytes();
        }
        map.update_percpu(&key, &values, MapFlags::ANY).map_err(refused)
    }

    /// Applies a configuration that was read again.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn reconfigure(
        &mut self,
        config: &Config,
        secret: Option<Secret>,
    ) -> Result<(), KernelError> {
        if let Some(secret) = secret {
            self.secret = secret;
        }
        write_servers(self.map("servers")?, &config.servers)?;
        self.refresh(config)?;
        let about = About { started_at: self.started_at, ..About::of(config, self.mode) };
        about.write(&self.pins)
    }

    /// Removes programs, maps and pins. The machine is as it was before.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn detach(self) -> Result<(), KernelError> {
        for link in &self.links {
            // A link whose interface is gone is already detached.
            if link.info().is_ok_and(|(interface, _)| interface != 0) {
                link.detach().map_err(|error| KernelError::refused("detaching", error))?;
            }
        }
        self.pins.remove_all().map_err(|error| KernelError::refused("removing the pins", error))
    }
}

/// Sweeps take at most this part of a processor's time: one in 200.
const SHARE: u32 = 200;
/// How long the log does not name an interface again.
const ROUTES_AGAIN: Duration = Duration::from_secs(600);
/// The longest time between two sweeps.
const SWEEP_MAX: Duration = Duration::from_secs(5);
