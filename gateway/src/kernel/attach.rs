//! Attaches loaded programs to an interface, or gives them to pinned links, and pins what is new.

use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::MapHandle;
use serde_json::json;

use super::links::{self, Hook, Link, XdpMode};
use super::load::Loaded;
use super::pins::Pins;
use super::{KernelError, error};
use crate::interface::Interface;
use crate::log::{Level, log};
use crate::passing;

/// Attaches the programs to all interfaces, each in the first of its modes that works. The mode is
/// generic if one interface's is.
pub(super) fn attach_all(
    loaded: &Loaded,
    places: &[(Interface, Vec<XdpMode>)],
    pins: &Pins,
) -> Result<(Vec<Link>, XdpMode), KernelError> {
    let (mut links, mut mode) = (Vec::new(), XdpMode::Native);
    for (interface, modes) in places {
        let (made, its) = attach(loaded, interface, modes, pins)?;
        links.extend(made);
        if its == XdpMode::Generic {
            mode = its;
        }
    }
    Ok((links, mode))
}

/// Attaches the three programs, or gives them to pinned links.
fn attach(
    loaded: &Loaded,
    interface: &Interface,
    modes: &[XdpMode],
    pins: &Pins,
) -> Result<(Vec<Link>, XdpMode), KernelError> {
    let (xdp, mode) =
        first(modes, |mode| attach_one(loaded.xdp.as_fd(), interface, Hook::Xdp(mode), pins))?;
    let mut made = vec![xdp];
    for (hook, program) in
        [(Hook::TcIngress, loaded.adopt.as_fd()), (Hook::TcEgress, loaded.egress.as_fd())]
    {
        made.push(attach_one(program, interface, hook, pins)?);
    }
    Ok((made, mode))
}

/// Returns the first mode in which attaching works, or the last mode's error.
fn first<T>(
    modes: &[XdpMode],
    mut attach: impl FnMut(XdpMode) -> Result<T, KernelError>,
) -> Result<(T, XdpMode), KernelError> {
    let mut why = KernelError::refused("attaching", "no mode");
    for (at, &mode) in modes.iter().enumerate() {
        match attach(mode) {
            Ok(link) => return Ok((link, mode)),
            Err(error) => {
                if let Some(next) = modes.get(at + 1) {
                    let fields = json!({ "mode": mode.name(), "next": next.name(), "why": error.to_string() });
                    log(Level::Warning, "mode refused", fields);
                }
                why = error;
            }
        }
    }
    Err(why)
}

fn attach_one(
    program: BorrowedFd<'_>,
    interface: &Interface,
    hook: Hook,
    pins: &Pins,
) -> Result<Link, KernelError> {
    let name = pins.link(hook, &interface.name);
    let path = pins.path(&name);
    let refused = |step: &str, error: &std::io::Error| {
        let how = match hook {
            Hook::Xdp(mode) => format!("XDP ({})", mode.name()),
            Hook::TcIngress => "tc ingress".into(),
            Hook::TcEgress => "tc egress".into(),
        };
        if hook == Hook::Xdp(XdpMode::Native) && !passing::error(error) {
            let (interface, why) = (interface.name.clone(), error::words(error));
            return KernelError::Native { interface, why };
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
        // A link whose interface is gone, or that has another mode.
        let _ = link.detach();
    }
    pins.remove(&name);
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

/// Pins maps. A new map replaces an old one in one step.
pub(super) fn pin_maps(loaded: &Loaded, pins: &Pins) -> Result<(), KernelError> {
    for (name, map) in &loaded.maps {
        if loaded.reused.contains(name) {
            continue;
        }
        let refused =
            |error: &dyn std::fmt::Display| KernelError::refused(format!("pinning {name}"), error);
        // The bpf file system reserves names with a dot.
        let new = format!("new_{name}");
        pins.remove(&new);
        let mut handle = MapHandle::try_from(map).map_err(|error| refused(&error))?;
        handle.pin(pins.path(&new)).map_err(|error| refused(&error))?;
        std::fs::rename(pins.path(&new), pins.path(name)).map_err(|error| refused(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_driver_refuses_native_generic_is_used() {
        let both = [XdpMode::Native, XdpMode::Generic];
        let refuse = |refused: &'static [XdpMode]| {
            move |mode: XdpMode| {
                let why = KernelError::refused(mode.name(), "refused");
                if refused.contains(&mode) { Err(why) } else { Ok(()) }
            }
        };
        assert_eq!(first(&both, refuse(&[])), Ok(((), XdpMode::Native)));
        assert_eq!(first(&both, refuse(&[XdpMode::Native])), Ok(((), XdpMode::Generic)));
        let none = first(&both, refuse(&[XdpMode::Native, XdpMode::Generic]));
        assert!(none.is_err_and(|error| error.to_string().starts_with("generic: refused")));
        let named = first(&[XdpMode::Native], refuse(&[XdpMode::Native]));
        assert!(named.is_err_and(|error| error.to_string().starts_with("native: refused")));
    }
}
