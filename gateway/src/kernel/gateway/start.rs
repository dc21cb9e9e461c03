//! Starts a gateway, or takes over one that is attached already.

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::KernelError;
use super::super::about::{About, own_secret, write_checks};
use super::super::attach::{attach_all, pin_maps};
use super::super::features::Features;
use super::super::links::{self, Hook, Link, XdpMode, program_name};
use super::super::load;
use super::super::pins::Pins;
use super::super::refusals::{require_privileges, running};
use super::super::settings::{self, Around};
use super::super::sweep::{Sweeper, Swept};
use super::Gateway;
use super::detach::remove_others;
use super::drain::Drain;
use super::servers::write_servers;
use crate::config::{Config, Mode};
use crate::interface::Interface;
use crate::keys::{Secret, unix_s};
use crate::routes::Routes;

/// The result of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Whether it took over a gateway that was already attached.
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
    /// Returns [`KernelError::Privileges`], [`KernelError::Feature`] or [`KernelError::Occupied`]
    /// if something is in the way.
    pub fn probe(config: &Config, interface: &Interface) -> Result<Vec<XdpMode>, KernelError> {
        require_privileges()?;
        let features = Features::of(interface)?;
        if let Some((feature, hint)) = features.lacking() {
            return Err(KernelError::Feature { feature, hint });
        }
        let pins = Pins::of(&config.bpffs, config.interface());
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
            // A gateway that already runs can stay in its mode.
            Mode::Auto | Mode::User => match (ours, features.native) {
                (Some(mode), _) => vec![mode],
                (None, Some(false)) => vec![XdpMode::Generic],
                (None, _) if interface.is_veth() => vec![XdpMode::Generic],
                (None, _) => vec![XdpMode::Native, XdpMode::Generic],
            },
        })
    }

    /// Returns the error that a start would return because a daemon already serves the interface;
    /// `None` if no daemon serves it.
    pub fn running(config: &Config) -> Option<KernelError> {
        let pins = Pins::of(&config.bpffs, config.interface());
        matches!(pins.lock(), Ok(None)).then(|| running(config, &pins))
    }

    /// Attaches the programs, or takes over those that are attached.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Gateway::probe`], [`KernelError::Running`] if another gateway
    /// has the interface, and an error if the kernel refuses a step. After an error, the machine is
    /// as it was before.
    pub fn start(
        config: &Config,
        interfaces: &[Interface],
        secret: Option<Secret>,
    ) -> Result<(Self, Started), KernelError> {
        let probe = |interface: &Interface| {
            Self::probe(config, interface).map(|modes| (interface.clone(), modes))
        };
        let places = interfaces.iter().map(probe).collect::<Result<Vec<_>, _>>()?;
        let pins = Pins::of(&config.bpffs, config.interface());
        let new = pins.create()?;
        let result = Self::start_at(config, &places, secret, &pins);
        if new && result.is_err() {
            // The new links are closed by now, so they disappear with their pins.
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
        let taken_over = pins.has(Hook::Xdp(XdpMode::Native).pin());
        let drain = match (config.active.any(), taken_over) {
            (true, _) => Drain::Serving,
            (false, true) => Drain::Since(Instant::now()),
            (false, false) => Drain::Over,
        };
        let write_settings = |mode| {
            let keys = secret.keys(unix_s(), config.rotation);
            let mut wanted = settings::of(config, &interfaces, mode, keys, around);
            drain.shape(&mut wanted, around);
            settings::write(map("settings")?, &wanted)
        };
        // The settings for generic XDP are correct in both modes, but slower in native mode.
        write_settings(XdpMode::Generic)?;

        let (links, mode) = attach_all(&loaded, places, pins)?;
        remove_others(pins, &interfaces);
        write_settings(mode)?;
        loaded.carry_over();
        pin_maps(&loaded, pins)?;
        let about = About::of(config, mode);
        about.write(pins)?;
        // The checks of an earlier run say nothing about this one. The map is made here, while the
        // process still has the privileges for it.
        write_checks(pins, &[])?;
        let started = Started {
            taken_over,
            reused: loaded.reused,
            replaced: loaded.replaced.into_keys().collect(),
        };
        let gateway = Self {
            interfaces,
            routes: Routes::open().ok(),
            routes_warned: BTreeMap::new(),
            pins: pins.clone(),
            started_at: about.started_at,
            mode,
            maps: loaded.maps,
            links,
            secret,
            around,
            sweeper,
            swept: Swept::default(),
            swept_at: None,
            sweep_at: Instant::now(),
            drain,
            // The gateway that was taken over may have answered one just now.
            syns: (0, taken_over.then(Instant::now)),
            quiet: false,
            _lock: lock,
        };
        Ok((gateway, started))
    }
}
