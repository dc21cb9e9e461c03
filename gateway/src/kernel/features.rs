//! What this kernel and an interface support, found out without changing either.

use libbpf_rs::Btf;
use libbpf_rs::btf::types::Func;

use super::KernelError;
use super::links::{XdpState, has_tcx, xdp_state};
use crate::interface::Interface;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The kernel describes its types (CONFIG_DEBUG_INFO_BTF), which kfuncs need.
    pub btf: bool,
    /// `bpf_cast_to_kern_ctx` (Linux 6.2): says whether a packet's checksum will be finished later.
    pub cast_to_kern_ctx: bool,
    /// `bpf_sk_assign_tcp_reqsk` (Linux 6.9): hands a connection to the kernel's TCP.
    pub assign_reqsk: bool,
    /// Links for tc (Linux 6.6).
    pub tcx: bool,
    /// Whether the interface's driver has XDP; `None`: only an attempt can tell.
    pub native: Option<bool>,
    /// The interface's frames have Ethernet headers.
    pub ethernet: bool,
    /// `net.ipv4.tcp_syncookies`. If it is 0, the kernel takes no connection over.
    pub syncookies: Option<u8>,
    /// What is attached to the interface's XDP hook.
    pub xdp: XdpState,
}

impl Features {
    /// Examines the kernel and the interface.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not tell.
    pub fn of(interface: &Interface) -> Result<Self, KernelError> {
        // Our own messages say what is missing, so libbpf's are not needed.
        let printing = libbpf_rs::set_print(None);
        let btf = Btf::from_vmlinux().ok();
        libbpf_rs::set_print(printing);
        let kfunc = |name: &str| {
            btf.as_ref().is_some_and(|btf| btf.type_by_name::<Func<'_>>(name).is_some())
        };
        let xdp = xdp_state(interface.index)
            .map_err(|error| KernelError::refused("asking for the XDP program", error))?;
        let tcx = has_tcx(interface.index);
        Ok(Self {
            btf: btf.is_some(),
            cast_to_kern_ctx: kfunc("bpf_cast_to_kern_ctx"),
            assign_reqsk: kfunc("bpf_sk_assign_tcp_reqsk"),
            tcx,
            // Kernels with TCX report this; a driver that reports nothing there has no XDP.
            native: match xdp.features {
                Some(features) => Some(features & NETDEV_XDP_ACT_BASIC != 0),
                None => tcx.then_some(false),
            },
            ethernet: interface.is_ethernet(),
            syncookies: std::fs::read_to_string(super::settings::SYNCOOKIES)
                .ok()
                .and_then(|text| text.trim().parse().ok()),
            xdp,
        })
    }

    /// Returns the first missing feature that the in-kernel data path needs, and what to do about
    /// it.
    pub fn lacking(&self) -> Option<(&'static str, String)> {
        let newer = |version: &str| format!("Linux {version} or newer, or {USER}");
        if !self.btf {
            Some((
                "BTF of the kernel (/sys/kernel/btf/vmlinux)",
                format!("a kernel with CONFIG_DEBUG_INFO_BTF, or {USER}"),
            ))
        } else if !self.tcx {
            Some(("links for tc (TCX)", newer("6.6")))
        } else if !self.cast_to_kern_ctx {
            Some(("bpf_cast_to_kern_ctx", newer("6.2")))
        } else if !self.assign_reqsk {
            Some(("hand-off to the kernel's TCP (bpf_sk_assign_tcp_reqsk)", newer("6.9")))
        } else if !self.ethernet {
            Some((
                "Ethernet header on the interface's frames",
                format!("an Ethernet interface, or {USER}"),
            ))
        } else if self.syncookies == Some(0) {
            Some((
                "SYN cookies in the kernel, which it needs to take connections over",
                "sysctl net.ipv4.tcp_syncookies=1".into(),
            ))
        } else {
            None
        }
    }
}

/// The alternative to the in-kernel path, with the settings that the configuration needs for it.
const USER: &str =
    "--mode user with --user-upstream and a --server that is not an address of this machine";
/// `NETDEV_XDP_ACT_BASIC`, linux/netdev.h: pass, drop, abort and TX.
const NETDEV_XDP_ACT_BASIC: u64 = 1;
