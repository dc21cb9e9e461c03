//! Filters: which packets belong to a band or class.
//!
//! Source: tc-flower(8), of which this is a small part: `protocol` is its `ip_proto`, `sport` and
//! `dport` are its `src_port` and `dst_port`. `port` (either end), lengths and ECN are not in
//! flower; u32 and ematch have them.

use crate::{ConfigError, Packet, Protocol};

/// What a packet must be like. Everything that is given must hold; nothing given matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Filter {
    /// The transport protocol.
    pub protocol: Option<Protocol>,
    /// A port at either end; not zero.
    pub port: Option<u16>,
    /// The source port; not zero.
    pub sport: Option<u16>,
    /// The destination port; not zero.
    pub dport: Option<u16>,
    /// The least length, as [`Packet::bytes`] counts it.
    pub min_bytes: Option<u32>,
    /// The largest length.
    pub max_bytes: Option<u32>,
    /// Whether the packet is ECN-capable (marked ones are).
    pub ecn: Option<bool>,
}

impl Filter {
    /// Whether a filter can be like this.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (field, port) in [("port", self.port), ("sport", self.sport), ("dport", self.dport)] {
            if port == Some(0) {
                return Err(ConfigError::NotPositive(field));
            }
        }
        match (self.min_bytes, self.max_bytes) {
            (Some(min), Some(max)) if min > max => Err(ConfigError::MinAboveMax),
            _ => Ok(()),
        }
    }

    /// Whether `packet` is what the filter asks for.
    #[inline]
    pub fn matches<P: Packet>(&self, packet: &P) -> bool {
        let (source, destination) = packet.ports();
        self.protocol.is_none_or(|protocol| packet.protocol() == protocol)
            && self.port.is_none_or(|port| source == port || destination == port)
            && self.sport.is_none_or(|port| source == port)
            && self.dport.is_none_or(|port| destination == port)
            && self.min_bytes.is_none_or(|bytes| packet.bytes() >= bytes)
            && self.max_bytes.is_none_or(|bytes| packet.bytes() <= bytes)
            && self.ecn.is_none_or(|ecn| packet.ecn().is_capable() == ecn)
    }
}

/// The first of `bands` of which a filter matches; the last if none does.
#[inline]
pub(crate) fn classify<'a, P: Packet>(
    packet: &P,
    mut bands: impl ExactSizeIterator<Item = &'a [Filter]>,
) -> usize {
    let last = bands.len() - 1;
    bands.position(|filters| filters.iter().any(|filter| filter.matches(packet))).unwrap_or(last)
}

/// Whether `bands`, as names and filters, can be told apart and reached.
pub(crate) fn check_bands(bands: &[(&str, &[Filter])]) -> Result<(), ConfigError> {
    let Some(last) = bands.len().checked_sub(1) else { return Err(ConfigError::NoBands) };
    for (index, &(name, filters)) in bands.iter().enumerate() {
        if bands[..index].iter().any(|&(other, _)| other == name) {
            return Err(ConfigError::BandTwice(name.into()));
        }
        if filters.is_empty() && index != last {
            return Err(ConfigError::BandWithoutMatch(name.into()));
        }
        filters.iter().try_for_each(Filter::check).map_err(|error| error.in_band(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::traffic::TestPacket;

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
    fn filters_and_bands_that_make_no_sense_are_refused() {
        let zero = Filter { sport: Some(0), ..Filter::default() };
        assert_eq!(zero.check(), Err(ConfigError::NotPositive("sport")));
        let empty = Filter { min_bytes: Some(2), max_bytes: Some(1), ..Filter::default() };
        assert_eq!(empty.check(), Err(ConfigError::MinAboveMax));
        let any = [Filter::default()];
        let check = check_bands;
        assert_eq!(check(&[]), Err(ConfigError::NoBands));
        assert_eq!(check(&[("a", &any), ("a", &[])]), Err(ConfigError::BandTwice("a".into())));
        assert_eq!(
            check(&[("a", &[]), ("b", &[])]),
            Err(ConfigError::BandWithoutMatch("a".into()))
        );
        let error = check(&[("a", &[zero]), ("b", &[])]).expect_err("a port of zero");
        assert_eq!(error.to_string(), "a: sport must be above zero");
        assert_eq!(check(&[("a", &any), ("b", &[])]), Ok(()));
    }
}
