//! Filters: which packets belong to a band or class.
//!
//! Source: a small part of tc-flower(8): `protocol` is its `ip_proto`, `sport` and `dport` are its
//! `src_port` and `dst_port`, `source` and `destination` its `src_ip` and `dst_ip`, `dscp` the upper
//! six bits of its `ip_tos`. `port` (either end), lengths and ECN are not in flower; u32 and ematch
//! have them.

use crate::settings::{
    Kind, MOST_BYTES, Rule, Setting, Settings, Value, any, codepoint, one_of, settings, size, whole,
};
use crate::{AnyConfig, ConfigError, Packet, Protocol};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

settings! {
    /// Conditions on a packet. It matches if it meets all that are given.
    pub struct Filter as "Match" {
        /// Its transport protocol; DNS runs over UDP.
        protocol: Option<Protocol> = None, one_of(&["udp", "tcp"]);
        /// A port at either end; 53 is DNS.
        port: Option<u16> = None, whole(1, 65_535);
        /// Its source port.
        sport: Option<u16> = None, whole(1, 65_535);
        /// Its destination port.
        dport: Option<u16> = None, whole(1, 65_535);
        /// Its shortest length, the link's `framing.queue_overhead` included.
        min_bytes: Option<u32> = None, size(0, MOST_BYTES);
        /// Its greatest length.
        max_bytes: Option<u32> = None, size(0, MOST_BYTES);
        /// Whether its transport is ECN-capable.
        ecn: Option<bool> = None, any();
        /// Its Differentiated Services code point (RFC 2474): a number, or a name such as `"EF"`.
        dscp: Option<u8> = None, codepoint();
        /// The host that it comes from, by the name of its node.
        source: Option<Host> = None, any();
        /// The host that it goes to.
        destination: Option<Host> = None, any();
    }
}

/// A host at an end of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(untagged))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Host {
    /// Its number, as in [`Packet::hosts`].
    Number(u32),
    /// Its name. It matches nothing, because packets have numbers: replace it before the queue is built.
    Name(String),
}

impl Setting for Host {
    const KIND: Kind = Kind::Name;

    fn value(&self) -> Value {
        match self {
            Self::Number(number) => Value::Whole((*number).into()),
            Self::Name(name) => Value::Name(name.clone()),
        }
    }

    fn check(&self, _key: &str, _rule: &Rule) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl Settings for Filter {
    fn check_together(&self) -> Result<(), ConfigError> {
        if *self == Self::default() {
            return Err(ConfigError::new("", "matches every packet")
                .or("name a condition; the last entry takes what is left"));
        }
        match (self.min_bytes, self.max_bytes) {
            (Some(min), Some(max)) if min > max => {
                Err(ConfigError::new("min_bytes", "is above max_bytes").or("exchange or fix them"))
            }
            _ => Ok(()),
        }
    }
}

impl Filter {
    /// Returns whether `packet` matches the filter.
    #[inline]
    pub fn matches<P: Packet>(&self, packet: &P) -> bool {
        let (source, destination) = packet.ports();
        let (from, to) = packet.hosts();
        let is = |host: &Option<Host>, number| {
            host.as_ref().is_none_or(|host| *host == Host::Number(number))
        };
        self.protocol.is_none_or(|protocol| packet.protocol() == protocol)
            && self.port.is_none_or(|port| source == port || destination == port)
            && self.sport.is_none_or(|port| source == port)
            && self.dport.is_none_or(|port| destination == port)
            && self.min_bytes.is_none_or(|bytes| packet.bytes() >= bytes)
            && self.max_bytes.is_none_or(|bytes| packet.bytes() <= bytes)
            && self.ecn.is_none_or(|ecn| packet.ecn().is_capable() == ecn)
            && self.dscp.is_none_or(|dscp| packet.dscp() == dscp)
            && is(&self.source, from)
            && is(&self.destination, to)
    }
}

/// Returns the first of `bands` with a filter that matches, or the last band if none does.
#[inline]
pub(crate) fn classify<'a, P: Packet>(
    packet: &P,
    mut bands: impl ExactSizeIterator<Item = &'a [Filter]>,
) -> usize {
    let last = bands.len() - 1;
    bands.position(|filters| filters.iter().any(|filter| filter.matches(packet))).unwrap_or(last)
}

/// The interface that bands and classes share.
pub(crate) trait Entry {
    fn name(&self) -> &str;
    fn filters(&self) -> &[Filter];
    fn queue(&self) -> &AnyConfig;
}

/// Declares an entry of a classful discipline: the settings that every entry has, and those that
/// follow.
macro_rules! entry {
    ($(#[doc = $about:literal])+ pub struct $name:ident { $($more:tt)* }) => {
        $crate::settings::settings! {
            $(#[doc = $about])+
            pub struct $name {
                /// Unique in its queue.
                name: String = String::new(), $crate::settings::name().required();
                /// Packets that match one of these go here, unless an earlier entry takes them. The
                /// last entry takes all packets that match none.
                filters as "match": Vec<$crate::Filter> = Vec::new(),
                    $crate::settings::entries(0, $crate::filter::MOST_ENTRIES);
                /// Its queue discipline; by default a pfifo of 1000 packets.
                queue: $crate::AnyConfig = $crate::fifo::PfifoConfig::default().into(),
                    $crate::settings::any();
                $($more)*
            }
        }

        impl $crate::filter::Entry for $name {
            fn name(&self) -> &str {
                &self.name
            }

            fn filters(&self) -> &[$crate::Filter] {
                &self.filters
            }

            fn queue(&self) -> &$crate::AnyConfig {
                &self.queue
            }
        }
    };
}

pub(crate) use entry;

/// Checks that the entries of the list `key` have distinct names and can be reached.
pub(crate) fn check_entries(key: &str, entries: &[impl Entry]) -> Result<(), ConfigError> {
    for (index, entry) in entries.iter().enumerate() {
        let at = |below: &str| format!("{key}[{index}]{below}");
        let name = entry.name();
        if entries[..index].iter().any(|other| other.name() == name) {
            let what = format!("\"{name}\" is taken");
            return Err(ConfigError::new(at(".name"), what).or("give them names"));
        }
        if entry.filters().is_empty() && index + 1 < entries.len() {
            return Err(ConfigError::new(at(".match"), "is missing, so that nothing comes here")
                .or("only the last entry takes what is left; give it match, or put it last"));
        }
        if entry.queue().depth() >= DEEPEST {
            let what = format!("has disciplines inside each other more than {DEEPEST} deep");
            return Err(ConfigError::new(at(""), what));
        }
    }
    Ok(())
}

/// Returns the disciplines of the entries of the list `key`, each with the path to it.
pub(crate) fn inner<'a>(key: &str, entries: &'a [impl Entry]) -> Vec<(String, &'a AnyConfig)> {
    let places = (0..).map(|index| format!("{key}[{index}].queue"));
    places.zip(entries.iter().map(Entry::queue)).collect()
}

/// The most bands or classes of a queue, and the most filters of one of them.
pub(crate) const MOST_ENTRIES: u64 = 64;
const DEEPEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::traffic::TestPacket;
    use alloc::string::ToString;
    use alloc::vec;

    fn dns() -> TestPacket {
        TestPacket {
            protocol: Protocol::Udp,
            ports: (40_000, 53),
            bytes: 80,
            ..TestPacket::default()
        }
    }

    #[test]
    fn each_field_is_a_condition() {
        let any = Filter::default;
        for (filter, matches) in [
            (any(), true),
            (Filter { protocol: Some(Protocol::Udp), ..any() }, true),
            (Filter { protocol: Some(Protocol::Tcp), ..any() }, false),
            (Filter { port: Some(53), ..any() }, true),
            (Filter { port: Some(40_000), ..any() }, true),
            (Filter { port: Some(80), ..any() }, false),
            (Filter { sport: Some(40_000), ..any() }, true),
            (Filter { sport: Some(53), ..any() }, false),
            (Filter { dport: Some(53), ..any() }, true),
            (Filter { dport: Some(40_000), ..any() }, false),
            (Filter { min_bytes: Some(80), ..any() }, true),
            (Filter { min_bytes: Some(81), ..any() }, false),
            (Filter { max_bytes: Some(80), ..any() }, true),
            (Filter { max_bytes: Some(79), ..any() }, false),
            (Filter { ecn: Some(false), ..any() }, true),
            (Filter { ecn: Some(true), ..any() }, false),
            (Filter { protocol: Some(Protocol::Udp), port: Some(80), ..any() }, false),
        ] {
            assert_eq!(filter.matches(&dns()), matches, "{filter:?}");
        }
        let marked = TestPacket { ecn: Ecn::Ce, ..dns() };
        assert!(Filter { ecn: Some(true), ..any() }.matches(&marked));
        let urgent = TestPacket { dscp: 46, ..dns() };
        let host = |number| Some(Host::Number(number));
        for (filter, matches) in [
            (Filter { source: host(3), ..any() }, true),
            (Filter { source: host(4), ..any() }, false),
            (Filter { destination: host(4), ..any() }, true),
            (Filter { source: host(3), destination: host(3), ..any() }, false),
            (Filter { source: Some(Host::Name("a".into())), ..any() }, false),
        ] {
            let packet = TestPacket { hosts: (3, 4), ..dns() };
            assert_eq!(filter.matches(&packet), matches, "{filter:?}");
        }
        let of = |dscp| Filter { dscp: Some(dscp), ..any() };
        assert!(of(46).matches(&urgent) && !of(0).matches(&urgent) && of(0).matches(&dns()));
    }

    #[test]
    fn the_first_band_with_a_match_takes_the_packet_and_the_last_takes_the_rest() {
        let bands = [
            vec![Filter { port: Some(80), ..Filter::default() }],
            vec![
                Filter { port: Some(443), ..Filter::default() },
                Filter { port: Some(53), ..Filter::default() },
            ],
            vec![Filter { protocol: Some(Protocol::Udp), ..Filter::default() }],
            vec![],
        ];
        let band = |packet: TestPacket| classify(&packet, bands.iter().map(Vec::as_slice));
        assert_eq!(band(dns()), 1);
        assert_eq!(band(TestPacket { ports: (1, 2), ..dns() }), 2);
        assert_eq!(band(TestPacket { protocol: Protocol::Tcp, ports: (1, 2), ..dns() }), 3);
    }

    #[test]
    fn filters_that_make_no_sense_are_refused() {
        for (filter, message) in [
            (Filter { sport: Some(0), ..Filter::default() }, "sport: must be above zero"),
            (
                Filter { min_bytes: Some(2), max_bytes: Some(1), ..Filter::default() },
                "min_bytes: is above max_bytes; hint: exchange or fix them",
            ),
            (
                Filter::default(),
                ": matches every packet; hint: name a condition; the last entry takes what is left",
            ),
        ] {
            assert_eq!(filter.check().expect_err(message).to_string(), message);
        }
        assert_eq!(Filter { port: Some(53), ..Filter::default() }.check(), Ok(()));
    }
}
