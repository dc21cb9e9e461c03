//! A gateway on an interface: starts it or takes it over, gives it new settings, and ends it.

mod detach;
mod servers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use narrows_units::Span;
use serde_json::json;

pub use detach::detach;
pub(super) use detach::elsewhere;

use detach::remove_others;
use servers::write_servers;

use super::about::{About, own_secret};
use super::attach::{attach, pin_maps};
use super::features::Features;
use super::held::Held;
use super::links::{self, Hook, Link, XdpMode, program_name};
use super::load;
use super::pins::{Lock, Pins};
use super::settings::Around;
use super::sweep::{Maps, Sweeper, Swept, Times};
use super::{KernelError, settings, view};
use crate::checked::Checked;
use crate::config::{Active, Config, Mode};
use crate::core::{Counter, Latencies};
use crate::interface::Interface;
use crate::keys::{Secret, boot_ns, unix_s};
use crate::log::{Level, log};
use crate::ways::Ways;

/// Bytes of one unit of the ring (`RING_UNIT` of `bpf/types.h`).
pub const RING_UNIT: u32 = 64;

/// A gateway that is attached to an interface. [`Gateway::detach`] ends it; if it is dropped, it
/// stays attached.
#[derive(Debug)]
pub struct Gateway {
    interfaces: Vec<Interface>,
    ways: Option<Ways>,
    ways_told: BTreeMap<String, Instant>,
    pins: Pins,
    mode: XdpMode,
    maps: BTreeMap<String, MapHandle>,
    links: Vec<Link>,
    secret: Secret,
    around: Around,
    sweeper: Sweeper,
    /// `None` if the kernel does not say.
    held: Option<Held>,
    swept: Swept,
    sweep_at: Instant,
    quiet: bool,
    _lock: Lock,
}

/// Counts the connections of sources, if the kernel lists them.
fn held() -> Option<Held> {
    Held::new()
        .inspect_err(|error| {
            let fields = json!({ "key": "limits.adoptions", "why": error.to_string() });
            log(Level::Warning, "connections of sources are not counted", fields);
        })
        .ok()
}

/// A daemon holds the lock of these pins.
fn running(config: &Config, pins: &Pins) -> KernelError {
    KernelError::Running {
        interface: config.interface.clone(),
        pid: About::read(pins).map(|about| about.pid),
    }
}

/// The result of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// A gateway that was already attached was taken over.
    pub taken_over: bool,
    /// Pinned maps that stay in use.
    pub reused: Vec<String>,
    /// Pinned maps that did not fit.
    pub replaced: Vec<String>,
}

impl Gateway {
    /// Says whether the in-kernel data path can run here and in which mode, without changing
    /// anything.
    ///
    /// # Errors
    ///
    /// [`KernelError::Privileges`], [`KernelError::Feature`], [`KernelError::Occupied`].
    pub fn probe(config: &Config, interface: &Interface) -> Result<Vec<XdpMode>, KernelError> {
        require_privileges()?;
        let features = Features::of(interface)?;
        if let Some((feature, hint)) = features.lacking() {
            return Err(KernelError::Feature { feature, hint });
        }
        let pins = Pins::of(&config.bpffs, &config.interface);
        let mut ours = None;
        if let Some((id, mode)) = features.xdp.program {
            let link =
                Link::open(&pins.path(&pins.link(Hook::Xdp(XdpMode::Native), &interface.name)))
                    .ok();
            if link.and_then(|link| link.info().ok()) != Some((interface.index, id)) {
                return Err(KernelError::Occupied {
                    interface: interface.name.clone(),
                    program: program_name(id),
                    mode,
                    holder: links::xdp_holder(interface.index, id),
                });
            }
            ours = mode;
        }
        Ok(match config.mode {
            Mode::Native => vec![XdpMode::Native],
            Mode::Generic => vec![XdpMode::Generic],
            // What already runs can go on as it is.
            Mode::Auto | Mode::User => match (ours, features.native) {
                (Some(mode), _) => vec![mode],
                (None, Some(false)) => vec![XdpMode::Generic],
                (None, _) if interface.is_veth() => vec![XdpMode::Generic],
                (None, _) => vec![XdpMode::Native, XdpMode::Generic],
            },
        })
    }

    /// The error with which a start would end because a daemon serves the interface already.
    pub fn running(config: &Config) -> Option<KernelError> {
        let pins = Pins::of(&config.bpffs, &config.interface);
        matches!(pins.lock(), Ok(None)).then(|| running(config, &pins))
    }

    /// Attaches the programs, or takes over those that are attached.
    ///
    /// # Errors
    ///
    /// As [`Gateway::probe`], [`KernelError::Running`], and if the kernel refuses a step. The
    /// machine is then as before.
    pub fn start(
        config: &Config,
        interfaces: &[Interface],
        secret: Option<Secret>,
    ) -> Result<(Self, Started), KernelError> {
        let probe = |interface: &Interface| {
            Self::probe(config, interface).map(|modes| (interface.clone(), modes))
        };
        let places = interfaces.iter().map(probe).collect::<Result<Vec<_>, _>>()?;
        let pins = Pins::of(&config.bpffs, &config.interface);
        let new = pins.create()?;
        let result = Self::start_at(config, &places, secret, &pins);
        if new && result.is_err() {
            // New links are closed by now and go away with their pins.
            let _ = pins.remove_all();
        }
        result
    }

    fn start_at(
        config: &Config,
        places: &[(Interface, Vec<XdpMode>)],
        secret: Option<Secret>,
        pins: &Pins,
    ) -> Result<(Self, Started), KernelError> {
        let interfaces: Vec<Interface> = places.iter().map(|(place, _)| place.clone()).collect();
        let lock = pins
            .lock()
            .map_err(|error| KernelError::refused("locking the directory of the pins", error))?
            .ok_or_else(|| running(config, pins))?;
        let secret = match secret {
            Some(secret) => secret,
            None => own_secret(pins)?,
        };
        let sweeper = Sweeper::new()?;
        let loaded = load::load(config, pins)?;
        let map = |name: &str| {
            loaded
                .maps
                .get(name)
                .ok_or_else(|| KernelError::refused("opening the maps", format!("no map {name}")))
        };
        write_servers(map("servers")?, &config.servers)?;
        let before = settings::read(map("settings")?)?;
        let around = Around::look(Around { tracking: before.track != 0, ..Around::default() });
        let write_settings = |mode| {
            let keys = secret.keys(unix_s(), config.rotation);
            settings::write(
                map("settings")?,
                &settings::of(config, &interfaces, mode, keys, around),
            )
        };
        // This is right in either mode, if slower in one of them.
        write_settings(XdpMode::Generic)?;

        let taken_over = pins.has(Hook::Xdp(XdpMode::Native).pin());
        let (mut links, mut mode) = (Vec::new(), XdpMode::Native);
        for (interface, modes) in places {
            let (made, its) = attach(&loaded, interface, modes, pins)?;
            links.extend(made);
            if its == XdpMode::Generic {
                mode = its;
            }
        }
        remove_others(pins, &interfaces);
        write_settings(mode)?;
        loaded.carry_over();
        pin_maps(&loaded, pins)?;
        About::of(config, mode).write(pins)?;
        // The checks of an earlier run say nothing about this one. The map is made here, while
        // there are privileges for it.
        super::about::write_checks(pins, &[])?;
        let started = Started {
            taken_over,
            reused: loaded.reused,
            replaced: loaded.replaced.into_keys().collect(),
        };
        let gateway = Self {
            interfaces,
            ways: Ways::open().ok(),
            ways_told: BTreeMap::new(),
            pins: pins.clone(),
            mode,
            maps: loaded.maps,
            links,
            secret,
            around,
            sweeper,
            held: held(),
            swept: Swept::default(),
            sweep_at: Instant::now(),
            quiet: false,
            _lock: lock,
        };
        Ok((gateway, started))
    }

    /// Stops logging what the machine does besides, because another gateway of this process logs
    /// it.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Stores the results of the checks beside the maps, for `status`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn keep_checks(&self, checks: &[Checked]) -> Result<(), KernelError> {
        super::about::write_checks(&self.pins, checks)
    }

    /// The interfaces that it serves; the first one comes first.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// How XDP runs: generic if it does so on any of the interfaces.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// The share of the clients whose new connections it serves now: the configuration's, or none
    /// while the kernel could not take connections over.
    ///
    /// # Errors
    ///
    /// If the settings cannot be read.
    pub fn share(&self) -> Result<Active, KernelError> {
        settings::read(self.map("settings")?).map(|settings| Active::of_share(settings.share))
    }

    /// A map, by name.
    ///
    /// # Errors
    ///
    /// If the programs have no map of this name.
    pub fn map(&self, name: &str) -> Result<&MapHandle, KernelError> {
        self.maps
            .get(name)
            .ok_or_else(|| KernelError::refused("opening the maps", format!("no map {name}")))
    }

    /// Writes the settings anew: those of the configuration, the current keys, the clock offset and
    /// the interface's MTU.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn refresh(&mut self, config: &Config) -> Result<(), KernelError> {
        for interface in &mut self.interfaces {
            if let Ok(now) = Interface::find(&interface.name) {
                interface.mtu = now.mtu;
            }
        }
        self.look_around();
        let wanted = settings::of(
            config,
            &self.interfaces,
            self.mode,
            self.secret.keys(unix_s(), config.rotation),
            self.around,
        );
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
            let anew = |of: &super::types::settings| (of.keys[0].k0, of.keys[0].k1);
            if !self.quiet && anew(&present) != anew(&wanted) {
                log(Level::Info, "a new key makes cookies", json!({}));
            }
        }
        Ok(())
    }

    /// Notes what the kernel does besides, and logs what has changed.
    fn look_around(&mut self) {
        let (before, now) = (self.around, Around::look(self.around));
        self.around = now;
        if self.quiet {
            return;
        }
        if now.tracking && !before.tracking {
            log(
                Level::Info,
                "connection tracking is in use: it is shown a handshake of what the kernel takes over",
                json!({}),
            );
        }
        if now.no_syncookies && !before.no_syncookies {
            log(
                Level::Error,
                "tcp_syncookies is 0: the kernel takes no connection over, so its own TCP serves all new ones",
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
    /// If the kernel refuses.
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
        if let (Some(held), true) = (&mut self.held, config.limits.adoptions > 0) {
            held.count(map("adopters")?, config.port)?;
        }
        let mut waiting = Vec::new();
        let swept = self.sweeper.sweep(&maps, times, &servers, &mut waiting)?;
        for (client, server) in waiting {
            self.look_at_way(client, server);
        }
        self.count(Counter::Expired, swept.expired)?;
        self.swept = swept;
        self.sweep_at = started + (started.elapsed() * SHARE).min(SWEEP_MAX);
        Ok(Some(swept))
    }

    /// Logs, from time to time, through which other interface the reply to a waiting client would
    /// leave.
    fn look_at_way(&mut self, client: SocketAddr, server: SocketAddr) {
        let Some(ways) = &mut self.ways else { return };
        let Some(name) = ways.beyond(server, client, &self.interfaces) else { return };
        if self.ways_told.get(&name).is_some_and(|at| at.elapsed() < WAYS_AGAIN) {
            return;
        }
        self.ways_told.insert(name.clone(), Instant::now());
        log(
            Level::Warning,
            "a reply leaves by an interface that is not served, so its client waits until the kernel's TCP answers",
            json!({
                "interface": name, "client": client, "server": server,
                "hint": format!("add --interface {name} to the others"),
            }),
        );
    }

    /// Whether all programs are still on their interfaces. An interface may be gone, or somebody
    /// may have detached the programs.
    pub fn is_attached(&self) -> bool {
        // Three for each interface, in order.
        let of = |at: usize| self.interfaces.get(at / 3).map(|interface| interface.index);
        self.links
            .iter()
            .enumerate()
            .all(|(at, link)| link.info().is_ok_and(|(index, _)| Some(index) == of(at)))
    }

    /// The result of the last sweep.
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// All counters, summed over processors.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn counters(&self) -> Result<Vec<(Counter, u64)>, KernelError> {
        view::counters(self.map("counters")?)
    }

    /// How long the server took for first replies.
    ///
    /// # Errors
    ///
    /// If that cannot be read.
    pub fn latencies(&self) -> Result<Latencies, KernelError> {
        view::latencies(self.map("latencies")?)
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
    /// If the kernel refuses.
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
        About::of(config, self.mode).write(&self.pins)
    }

    /// Removes programs, maps and pins. The machine is as it was before.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn detach(self) -> Result<(), KernelError> {
        for link in &self.links {
            // If its interface is gone, a link is detached already.
            if link.info().is_ok_and(|(interface, _)| interface != 0) {
                link.detach().map_err(|error| KernelError::refused("detaching", error))?;
            }
        }
        self.pins.remove_all().map_err(|error| KernelError::refused("removing the pins", error))
    }
}

/// The largest share of a processor for sweeps: one part in this many.
const SHARE: u32 = 200;
/// How long an interface is not named again.
const WAYS_AGAIN: Duration = Duration::from_secs(600);
/// The longest time between two sweeps.
const SWEEP_MAX: Duration = Duration::from_secs(5);

/// Loading and attaching need CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (Linux 5.8), or CAP_SYS_ADMIN.
fn require_privileges() -> Result<(), KernelError> {
    const NEED: &str = "attaching needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, and closing connections needs CAP_NET_RAW";
    let effective = std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .unwrap_or(0);
    // linux/capability.h
    let has = |number: u32| effective >> number & 1 == 1;
    let (net_admin, net_raw, sys_admin, perfmon, bpf) =
        (has(12), has(13), has(21), has(38), has(39));
    if net_admin && net_raw && (sys_admin || (bpf && perfmon)) {
        Ok(())
    } else {
        Err(KernelError::Privileges(NEED))
    }
}
