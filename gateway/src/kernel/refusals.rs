//! Why the in-kernel data path is not started, opened or detached: another daemon serves, the pins
//! are elsewhere, or privileges are missing.

use super::KernelError;
use super::about::About;
use super::links::{program_name, xdp_state};
use super::pins::Pins;
use crate::config::Config;
use crate::interface::Interface;

/// The error for an interface that has a gateway's XDP program but no pins.
pub(super) fn elsewhere(config: &Config) -> Option<KernelError> {
    let interface = Interface::find(config.interface()).ok()?;
    let (id, _) = xdp_state(interface.index).ok()?.program?;
    program_name(id).starts_with("gateway_xdp ").then(|| KernelError::Elsewhere {
        interface: interface.name,
        bpffs: config.bpffs.display().to_string(),
    })
}

/// The error for pins whose lock a daemon holds.
pub(super) fn running(config: &Config, pins: &Pins) -> KernelError {
    KernelError::Running {
        interface: config.interface().to_owned(),
        pid: About::read(pins).map(|about| about.pid),
    }
}

/// Loading and attaching need CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (Linux 5.8), or CAP_SYS_ADMIN.
pub(super) fn require_privileges() -> Result<(), KernelError> {
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
