//! Links: attachments of programs to an interface. A link can be pinned, and its program can be
//! replaced in one step.
//!
//! BPF_LINK_CREATE, BPF_LINK_UPDATE and BPF_LINK_DETACH are as in Linux kernel/bpf/syscall.c (6.9),
//! and the modes of XDP as in net/core/dev.c: native if the driver has `ndo_bpf` and accepts the
//! program, generic for any interface.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::query::{LinkInfo, LinkTypeInfo};
use libbpf_rs::{ProgramHandle, libbpf_sys};

/// How XDP runs on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the kernel's generic receive path.
    Generic,
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// XDP.
    Xdp(XdpMode),
    /// tc, ingress.
    TcIngress,
    /// tc, egress.
    TcEgress,
}

/// What the kernel says about XDP on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpState {
    /// The attached program's number, and how it runs: `None` for a mode that the gateway does not
    /// use (on the card).
    pub program: Option<(u32, Option<XdpMode>)>,
    /// NETDEV_XDP_ACT_*, linux/netdev.h; `None` if the kernel (before 6.3) does not tell.
    pub features: Option<u64>,
}

impl XdpMode {
    /// "native" or "generic".
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

impl Hook {
    /// Returns the name of the link's pin.
    pub fn pin(self) -> &'static str {
        match self {
            Self::Xdp(_) => "link_xdp",
            Self::TcIngress => "link_tc_ingress",
            Self::TcEgress => "link_tc_egress",
        }
    }

    fn attach_type(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Self::Xdp(_) => libbpf_sys::BPF_XDP,
            Self::TcIngress => libbpf_sys::BPF_TCX_INGRESS,
            Self::TcEgress => libbpf_sys::BPF_TCX_EGRESS,
        }
    }
}

/// An attachment.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Link {
    /// Attaches a program.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[allow(unsafe_code, reason = "libbpf's C functions")]
    pub fn create(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> io::Result<Self> {
        let mut options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
            ..Default::default()
        };
        options.flags = match hook {
            Hook::Xdp(XdpMode::Native) => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Hook::Xdp(XdpMode::Generic) => libbpf_sys::XDP_FLAGS_SKB_MODE,
            // Run before other programs, because they might drop or change the server's datagrams.
            Hook::TcIngress | Hook::TcEgress => libbpf_sys::BPF_F_BEFORE,
        };
        // SAFETY: a program's descriptor and a structure with its size. Both outlive the call.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(
                program.as_raw_fd(),
                interface.cast_signed(),
                hook.attach_type(),
                &options,
            )
        };
        // SAFETY: the descriptor is new, and nobody else owns it.
        checked(fd).map(|fd| Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Opens a pinned link.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error: there is no pin, or it is not a link.
    #[allow(unsafe_code, reason = "libbpf's C functions")]
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a path that ends in zero and outlives the call.
        let fd = unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) };
        // SAFETY: the descriptor is new, and nobody else owns it.
        let link = checked(fd).map(|fd| Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })?;
        link.info().map(|_| link)
    }

    /// Pins it.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[allow(unsafe_code, reason = "libbpf's C functions")]
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: our descriptor and a path that ends in zero, which outlive the call.
        checked(unsafe { libbpf_sys::bpf_obj_pin(self.fd.as_raw_fd(), path.as_ptr()) }).map(|_| ())
    }

    /// Replaces its program in one step, so that a program is attached at all times.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[allow(unsafe_code, reason = "libbpf's C functions")]
    pub fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: two descriptors that outlive the call; no options.
        checked(unsafe {
            libbpf_sys::bpf_link_update(self.fd.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
        })
        .map(|_| ())
    }

    /// Detaches it from its interface, even if others hold it too.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    #[allow(unsafe_code, reason = "libbpf's C functions")]
    pub fn detach(&self) -> io::Result<()> {
        // SAFETY: the descriptor is ours.
        checked(unsafe { libbpf_sys::bpf_link_detach(self.fd.as_raw_fd()) }).map(|_| ())
    }

    /// Returns the number of its interface (0: the interface is gone), and that of its program.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, or [`io::ErrorKind::InvalidData`] for a link of another kind.
    pub fn info(&self) -> io::Result<(u32, u32)> {
        let info = LinkInfo::from_fd(self.fd.as_fd()).map_err(io::Error::other)?;
        match info.info {
            LinkTypeInfo::Xdp(xdp) => Ok((xdp.ifindex, info.prog_id)),
            LinkTypeInfo::Tcx(tcx) => Ok((tcx.ifindex, info.prog_id)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a link of XDP or tc")),
        }
    }
}

/// Returns what the kernel says about XDP on an interface.
///
/// # Errors
///
/// Returns the kernel's error.
#[allow(unsafe_code, reason = "libbpf's C functions")]
pub fn xdp_state(interface: u32) -> io::Result<XdpState> {
    let mut options = libbpf_sys::bpf_xdp_query_opts {
        sz: size_of::<libbpf_sys::bpf_xdp_query_opts>() as _,
        ..Default::default()
    };
    // SAFETY: a structure with its size, which outlives the call.
    checked(unsafe { libbpf_sys::bpf_xdp_query(interface.cast_signed(), 0, &mut options) })?;
    // A program on the card may run beside a native or generic one.
    let program = [
        (options.drv_prog_id, Some(XdpMode::Native)),
        (options.skb_prog_id, Some(XdpMode::Generic)),
        (options.hw_prog_id, None),
    ]
    .into_iter()
    .find(|&(id, _)| id != 0);
    Ok(XdpState {
        program,
        features: (options.feature_flags != 0).then_some(options.feature_flags),
    })
}

/// What holds a program on an XDP hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The BPF link of this number.
    Link(u32),
    /// The interface itself; `ip link` attaches in this way.
    Interface,
    /// The kernel does not tell: listing links needs CAP_SYS_ADMIN.
    Unknown,
}

/// Returns what holds this program on an interface's XDP hook.
#[allow(unsafe_code, reason = "libbpf's C functions")]
pub fn xdp_holder(interface: u32, program: u32) -> Holder {
    let mut number = 0;
    loop {
        // SAFETY: a number that outlives the call.
        let next = checked(unsafe { libbpf_sys::bpf_link_get_next_id(number, &mut number) });
        match next {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Holder::Interface,
            Err(_) => return Holder::Unknown,
        }
        // SAFETY: a number; its link may be gone by now.
        let Ok(fd) = checked(unsafe { libbpf_sys::bpf_link_get_fd_by_id(number) }) else {
            continue;
        };
        // SAFETY: the descriptor is new, and nobody else owns it.
        let link = Link { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        if link.info().is_ok_and(|of| of == (interface, program)) {
            return Holder::Link(number);
        }
    }
}

/// Returns whether this kernel has links for tc (TCX, Linux 6.6). To find out, it asks for the list
/// of an interface's links.
#[allow(unsafe_code, reason = "libbpf's C functions")]
pub fn has_tcx(interface: u32) -> bool {
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as _,
        ..Default::default()
    };
    // SAFETY: a structure with its size and without room for a list, which outlives the call.
    checked(unsafe {
        libbpf_sys::bpf_prog_query_opts(
            interface.cast_signed(),
            libbpf_sys::BPF_TCX_INGRESS,
            &mut options,
        )
    })
    .is_ok()
}

/// Returns a program by its number, in bpftool's notation: `gateway_xdp (id 7)`.
pub fn program_name(id: u32) -> String {
    match ProgramHandle::from_prog_id(id) {
        Ok(program) => format!("{} (id {id})", program.name().to_string_lossy()),
        Err(_) => format!("id {id}"),
    }
}

/// Turns a result of libbpf 1, which returns negative error numbers, into a `Result`.
fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}
