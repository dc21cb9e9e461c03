//! Attaches loaded programs to an interface, or gives pinned links the new ones, and pins what is new.

use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::MapHandle;
use serde_json::json;

use super::KernelError;
use super::links::{self, Hook, Link, XdpMode};
use super::load::Loaded;
use super::pins::Pins;
use crate::interface::Interface;
use crate::log::{Level, log};

/// Attaches the three programs, or gives pinned links the new ones.
pub(super) fn attach(
    loaded: &Loaded,
    interface: &Interface,
    modes: &[XdpMode],
    pins: &Pins,
) -> Result<(Vec<Link>, XdpMode), KernelError> {
    let mut why = KernelError::refused("attaching", "no mode");
    let mut first = None;
    for (at, &mode) in modes.iter().enumerate() {
        match attach_one(loaded.xdp.as_fd(), interface, Hook::Xdp(mode), pins) {
            Ok(link) => {
                first = Some((link, mode));
                break;
            }
            Err(error) => {
                if let Some(next) = modes.get(at + 1) {
                    let fields = json!({ "mode": mode.name(), "next": next.name(), "why": error.to_string() });
                    log(Level::Error, "mode refused", fields);
                }
                why = error;
            }
        }
    }
    let Some((xdp, mode)) = first else { return Err(why) };
    let mut made = vec![xdp];
    for (hook, program) in
        [(Hook::TcIngress, loaded.adopt.as_fd()), (Hook::TcEgress, loaded.egress.as_fd())]
    {
        made.push(attach_one(program, interface, hook, pins)?);
    }
    Ok((made, mode))
}

fn attach_one(
    program: BorrowedFd<'_>,
    interface: &Interface,
    hook: Hook,
    pins: &Pins,
) -> Result<Link, KernelError> {
    let path = pins.path(hook.pin());
    let refused = |step: &str, error: &std::io::Error| {
        let how = match hook {
            Hook::Xdp(mode) => format!("XDP ({})", mode.name()),
            Hook::TcIngress => "tc ingress".into(),
            Hook::TcEgress => "tc egress".into(),
        };
        if hook == Hook::Xdp(XdpMode::Native) && error.raw_os_error() == Some(nix::libc::EOPNOTSUPP)
        {
            let hint = "--mode generic, or auto".into();
            return KernelError::Feature { feature: "native XDP in the interface's driver", hint };
        }
        KernelError::refused(format!("{step} {how} on {}", interface.name), error)
    };
    if let Ok(link) = Link::open(&path) {
        let fits = link.info().is_ok_and(|(index, _)| index == interface.index)
            && has_mode(hook, interface);
        if fits {
            link.update(program).map_err(|error| refused("replacing the program of", &error))?;
            return Ok(link);
        }
        // Of an interface that is gone, or in another mode.
        let _ = link.detach();
    }
    pins.remove(hook.pin());
    let link = Link::create(program, interface.index, hook)
        .map_err(|error| refused("attaching to", &error))?;
    link.pin(&path).map_err(|error| refused("pinning", &error))?;
    Ok(link)
}

fn has_mode(hook: Hook, interface: &Interface) -> bool {
    match hook {
        Hook::Xdp(mode) => links::xdp_state(interface.index)
            .is_ok_and(|state| state.program.and_then(|(_, present)| present) == Some(mode)),
        Hook::TcIngress | Hook::TcEgress => true,
    }
}

/// Pins maps: new ones take the place of old ones in one step.
pub(super) fn pin_maps(loaded: &Loaded, pins: &Pins) -> Result<(), KernelError> {
    for (name, map) in &loaded.maps {
        if loaded.reused.contains(name) {
            continue;
        }
        let refused =
            |error: &dyn std::fmt::Display| KernelError::refused(format!("pinning {name}"), error);
        // Names with a dot are the file system's own.
        let new = format!("new_{name}");
        pins.remove(&new);
        let mut handle = MapHandle::try_from(map).map_err(|error| refused(&error))?;
        handle.pin(pins.path(&new)).map_err(|error| refused(&error))?;
        std::fs::rename(pins.path(&new), pins.path(name)).map_err(|error| refused(&error))?;
    }
    Ok(())
}
