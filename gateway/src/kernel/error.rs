//! Why the in-kernel data path does not start or cannot be reached.

use std::fmt;

use super::links::{Holder, XdpMode};
use crate::passing::{self, Passing};

/// Why the in-kernel data path does not start or cannot be reached. Displays as one line that says
/// what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// The process lacks privileges.
    Privileges(&'static str),
    /// The kernel or the interface lacks a feature that the programs need.
    Feature {
        /// Its name.
        feature: &'static str,
        /// What can be done.
        hint: String,
    },
    /// The interface's driver refuses XDP.
    Native {
        /// The interface.
        interface: String,
        /// The kernel's message.
        why: String,
    },
    /// Another program occupies the interface's XDP hook.
    Occupied {
        /// The interface.
        interface: String,
        /// The program, in bpftool's notation.
        program: String,
        /// How it runs; `None`: on the card.
        mode: Option<XdpMode>,
        /// What keeps it attached.
        holder: Holder,
    },
    /// Another narrows-gateway serves this interface.
    Running {
        /// The interface.
        interface: String,
        /// Its process, if known.
        pid: Option<u32>,
    },
    /// Programs of ours are attached to the interface, but their pins are in another bpf file
    /// system.
    Elsewhere {
        /// The interface.
        interface: String,
        /// Where the pins were looked for.
        bpffs: String,
    },
    /// No program of ours is attached to the interface.
    NotAttached(String),
    /// A pin is missing or belongs to another version.
    Pins {
        /// What was tried.
        step: String,
        /// What is wrong.
        why: String,
    },
    /// The kernel refused a step.
    Refused {
        /// What was tried.
        step: String,
        /// The kernel's or libbpf's message.
        why: String,
        /// Whether it may pass by itself ([`passing::text`]).
        passes: bool,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileges(need) => write!(f, "not enough privileges: {need}; hint: run as root"),
            Self::Feature { feature, hint } => write!(f, "no {feature}; hint: {hint}"),
            Self::Native { interface, why } => write!(
                f,
                "no native XDP in the driver of {interface}: {why}; hint: --mode generic, or auto"
            ),
            Self::Occupied { interface, program, mode, holder } => {
                write!(f, "{interface} has an XDP program already: {program}, ")?;
                occupied(f, interface, program, *mode, *holder)
            }
            Self::Running { interface, pid } => {
                write!(f, "another narrows-gateway serves {interface}")?;
                match pid {
                    Some(pid) => write!(
                        f,
                        " (process {pid}); hint: kill {pid} ends it and detaches its programs; kill -USR2 {pid} leaves them attached, for a restart without a gap"
                    ),
                    None => write!(f, "; hint: end it first"),
                }
            }
            Self::Elsewhere { interface, bpffs } => write!(
                f,
                "{interface} has the programs of a narrows-gateway, but {bpffs} does not have their pins; hint: use nsenter --net in place of ip netns exec, or the --bpffs with which it was started"
            ),
            Self::NotAttached(interface) => write!(
                f,
                "no narrows-gateway is attached to {interface}; hint: narrows-gateway run --interface {interface} --server ADDRESS"
            ),
            Self::Pins { step, why } => write!(
                f,
                "{step}: {why}; hint: narrows-gateway run attaches and pins again, narrows-gateway detach removes what is left"
            ),
            Self::Refused { step, why, .. } => {
                write!(f, "{step}: {why}; hint: narrows-gateway check says what this kernel can do")
            }
        }
    }
}

/// Writes how another program is attached, and the command that removes it.
fn occupied(
    f: &mut fmt::Formatter<'_>,
    interface: &str,
    program: &str,
    mode: Option<XdpMode>,
    holder: Holder,
) -> fmt::Result {
    let (how, off) = match mode {
        Some(XdpMode::Native) => ("native", "xdpdrv"),
        Some(XdpMode::Generic) => ("generic", "xdpgeneric"),
        None => ("on the card", "xdpoffload"),
    };
    write!(f, "{how}, ")?;
    match holder {
        Holder::Link(number) => write!(f, "held by the BPF link {number}; hint: ")?,
        Holder::Interface => write!(f, "attached without a link; hint: ")?,
        Holder::Unknown => write!(f, "perhaps held by a BPF link; hint: ")?,
    }
    let unlink = |number: &str| format!("bpftool link detach id {number}");
    let off = format!("ip link set dev {interface} {off} off");
    match (program.split(' ').next(), holder) {
        // The program is the gateway's own, but its pins are not in this bpf file system.
        (Some("gateway_xdp"), _) => {
            write!(
                f,
                "use nsenter --net in place of ip netns exec, or the --bpffs with which it was started"
            )
        }
        // libxdp's programs share an interface through this one: xdp-tools 1.3,
        // lib/libxdp/xdp-dispatcher.c.in.
        (Some("xdp_dispatcher"), _) => write!(
            f,
            "xdp-loader unload {interface} --all takes off libxdp's programs, beside which the gateway cannot run"
        ),
        (_, Holder::Link(number)) => {
            write!(f, "{} takes it off; end what attached it first", unlink(&number.to_string()))
        }
        (_, Holder::Interface) => write!(f, "{off} takes it off"),
        (_, Holder::Unknown) => {
            let unlink = unlink("NUMBER");
            write!(f, "{off} takes it off, or {unlink} if a link of bpftool link list holds it")
        }
    }
}

impl std::error::Error for KernelError {}

impl Passing for KernelError {
    fn passes(&self) -> bool {
        match self {
            // That gateway may be ending.
            Self::Running { .. } => true,
            Self::Refused { passes, .. } => *passes,
            Self::Privileges(_)
            | Self::Feature { .. }
            | Self::Native { .. }
            | Self::Occupied { .. }
            | Self::Elsewhere { .. }
            | Self::NotAttached(_)
            | Self::Pins { .. } => false,
        }
    }
}

/// Returns the system's message without "(os error 2)", which only repeats it.
fn without_number(text: &str) -> String {
    match text.split_once(" (os error ") {
        Some((words, rest)) => {
            format!("{words}{}", rest.split_once(')').map_or("", |(_, after)| after))
        }
        None => text.into(),
    }
}

/// Returns a cause in one line, without error numbers. libbpf-rs puts causes on separate lines.
pub(super) fn words(why: impl fmt::Display) -> String {
    let lines: Vec<String> = why
        .to_string()
        .lines()
        .map(|line| without_number(&line.trim().to_lowercase()))
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(": ")
}

impl KernelError {
    pub(super) fn refused(step: impl Into<String>, why: impl fmt::Display) -> Self {
        // With the errors behind it, as libbpf-rs writes them.
        let why = format!("{why:#}");
        let passes = passing::text(&why);
        Self::Refused { step: step.into(), why: words(why), passes }
    }

    pub(super) fn pins(step: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::Pins { step: step.into(), why: words(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_nobody_tells_of_has_both_commands() {
        let occupied = KernelError::Occupied {
            interface: "eth0".into(),
            program: "pass (id 7)".into(),
            mode: Some(XdpMode::Native),
            holder: Holder::Unknown,
        };
        assert_eq!(
            occupied.to_string(),
            "eth0 has an XDP program already: pass (id 7), native, perhaps held by a BPF link; hint: ip link set dev eth0 xdpdrv off \
             takes it off, or bpftool link detach id NUMBER if a link of bpftool link list holds it"
        );
    }

    #[test]
    fn a_refusal_is_one_line_without_numbers() {
        let why = "Too many open files (os error 24) (libbpf: -EMFILE)\n\nCaused by:\n  File exists (os error 17)";
        assert_eq!(
            KernelError::refused("opening", why).to_string(),
            "opening: too many open files (libbpf: -emfile): caused by:: file exists; hint: narrows-gateway check says what this kernel can do"
        );
    }
}
