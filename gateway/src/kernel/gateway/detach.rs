//! Removes what a gateway left behind: everything, or only its programs on interfaces that are no
//! longer served.

use super::super::KernelError;
use super::super::links::Link;
use super::super::pins::Pins;
use super::super::refusals::{elsewhere, require_privileges, running};
use crate::config::Config;
use crate::interface::Interface;

/// Removes everything that a gateway left on an interface, even after a crash. Returns whether
/// there was anything.
///
/// # Errors
///
/// Returns [`KernelError::Running`] if a daemon serves it, [`KernelError::Elsewhere`] if its pins
/// are in another bpf file system, and an error if the kernel refuses.
pub fn detach(config: &Config) -> Result<bool, KernelError> {
    require_privileges()?;
    let pins = Pins::of(&config.bpffs, config.interface());
    if !pins.directory().exists() {
        return elsewhere(config).map_or(Ok(false), Err);
    }
    let Some(_lock) = pins
        .lock()
        .map_err(|error| KernelError::refused("locking the directory of the pins", error))?
    else {
        return Err(running(config, &pins));
    };
    for name in pins.links() {
        if let Ok(link) = Link::open(&pins.path(&name)) {
            // A link whose interface is gone is already detached.
            if link.info().is_ok_and(|(interface, _)| interface != 0) {
                link.detach().map_err(|error| KernelError::refused("detaching", error))?;
            }
        }
    }
    pins.remove_all().map_err(|error| KernelError::refused("removing the pins", error))?;
    Ok(true)
}

/// Detaches the programs from interfaces that an earlier run served and this one does not serve.
pub(super) fn remove_others(pins: &Pins, interfaces: &[Interface]) {
    for name in pins.links() {
        let of = name.split_once('@').map(|(_, interface)| interface);
        if of.is_some_and(|of| interfaces.iter().all(|interface| interface.name != of)) {
            if let Ok(link) = Link::open(&pins.path(&name)) {
                let _ = link.detach();
            }
            pins.remove(&name);
        }
    }
}
