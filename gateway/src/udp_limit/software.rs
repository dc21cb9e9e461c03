//! The servers whose settings are known here.

/// A server's software, as far as the limit depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// Its name.
    pub name: &'static str,
    /// How its `version.bind` begins.
    version: &'static str,
    /// Whether its payload size in EDNS is also the most that it sends.
    pub(super) states: bool,
    /// The most that it can be set to.
    pub(super) most: u16,
    /// The setting for what it may send.
    pub(super) setting: &'static str,
}

impl Software {
    /// The software with this `version.bind`; `None` if it is not known here.
    pub(super) fn of(version: &str) -> Option<Self> {
        KNOWN.into_iter().find(|software| version.starts_with(software.version))
    }
}

/// The servers that were tried: NSD 4.6, BIND 9.18, Knot 3.2, Unbound 1.17, PowerDNS 4.7.
pub(super) const KNOWN: [Software; 5] = [
    Software {
        name: "NSD",
        version: "NSD ",
        states: true,
        most: u16::MAX,
        setting: "ipv4-edns-size and ipv6-edns-size",
    },
    Software {
        name: "Knot",
        version: "Knot DNS ",
        states: true,
        most: 4096,
        setting: "udp-max-payload",
    },
    Software {
        name: "PowerDNS",
        version: "PowerDNS ",
        states: true,
        most: u16::MAX,
        setting: "udp-truncation-threshold",
    },
    Software { name: "BIND", version: "9.", states: false, most: 4096, setting: "max-udp-size" },
    Software {
        name: "Unbound",
        version: "unbound ",
        states: false,
        most: u16::MAX,
        setting: "max-udp-size",
    },
];
