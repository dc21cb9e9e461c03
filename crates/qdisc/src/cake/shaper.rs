//! The shaper: virtual clocks instead of a token bucket, so it never sends a burst.

use narrows_units::{Bytes, Pace, Rate, Time};

use super::Config;
use crate::settings::words;

/// The clock of the whole queue.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    pace: Pace,
    /// When the line at this rate will have sent everything so far.
    next_at: Time,
    /// The same at two thirds of the rate, without what was only dropped. It lets a packet out when
    /// drops have pushed the other clock too far (in ingress mode).
    failsafe_at: Time,
}

impl Shaper {
    pub(super) const fn new(rate: Rate) -> Self {
        Self { pace: rate.pace(), next_at: Time::ZERO, failsafe_at: Time::ZERO }
    }

    /// Returns when a packet may leave.
    #[inline]
    pub(super) fn due_at(&self) -> Time {
        self.next_at.min(self.failsafe_at)
    }

    /// Lets a queue that was empty begin at `now`, without credit.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) {
        if self.next_at < now {
            self.next_at = now;
            self.failsafe_at = now;
        }
    }

    /// Charges a packet of this adjusted length, which was sent or, in ingress mode, dropped.
    #[inline]
    pub(super) fn charge(&mut self, length: u32, was_dropped: bool) {
        let lasts = self.pace.time_for(Bytes::from(length));
        self.next_at += lasts;
        if !was_dropped {
            self.failsafe_at =
                self.failsafe_at + lasts + narrows_units::Span::from_ps(lasts.as_ps() / 2);
        }
    }
}

/// How the shaper counts a packet's length.
#[derive(Clone, Debug)]
pub(super) struct Length {
    /// Added to the IP packet's length; `None`: the length includes the link's header as it is.
    overhead: Option<i32>,
    mpu: u32,
    link_layer: LinkLayer,
}

words! {
    /// How a link carries packets in cells or code words.
    pub enum LinkLayer {
        /// As they are.
        Plain = "noatm",
        /// In ATM cells: 53 bytes for each 48 that began.
        Atm = "atm",
        /// With a byte for each 64 that began, as on PTM links (VDSL2).
        Ptm = "ptm",
    }
}

impl Length {
    pub(super) const fn new(config: &Config) -> Self {
        Self { overhead: config.overhead, mpu: config.mpu, link_layer: config.link_layer }
    }

    /// `cake_calc_overhead`: returns the length on the wire of a packet of `bytes`, of which
    /// `header` are the link's.
    #[inline]
    pub(super) fn on_wire(&self, bytes: u32, header: u32) -> u32 {
        let length = match self.overhead {
            None => bytes,
            Some(overhead) => bytes.saturating_sub(header).saturating_add_signed(overhead),
        };
        let length = length.max(self.mpu);
        match self.link_layer {
            LinkLayer::Plain => length,
            LinkLayer::Atm => length.div_ceil(48).saturating_mul(53),
            LinkLayer::Ptm => length.saturating_add(length.div_ceil(64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_wire(overhead: Option<i32>, mpu: u32, link_layer: LinkLayer, bytes: u32) -> u32 {
        Length::new(&Config { overhead, mpu, link_layer, ..Config::default() }).on_wire(bytes, 14)
    }

    #[test]
    fn an_overhead_counts_from_the_ip_packet() {
        assert_eq!(on_wire(None, 0, LinkLayer::Plain, 1_514), 1_514);
        assert_eq!(on_wire(Some(0), 0, LinkLayer::Plain, 1_514), 1_500);
        assert_eq!(on_wire(Some(38), 84, LinkLayer::Plain, 1_514), 1_538);
        assert_eq!(on_wire(Some(38), 84, LinkLayer::Plain, 54), 84);
        assert_eq!(on_wire(Some(-20), 0, LinkLayer::Plain, 1_514), 1_480);
        assert_eq!(on_wire(Some(-64), 0, LinkLayer::Plain, 54), 0);
    }

    /// ITU-T I.361: cells of 53 bytes carry 48. PPPoE over ATM with LLC (`overhead 40`): a TCP
    /// acknowledgement of 52 bytes takes two cells, a full packet 33.
    #[test]
    fn atm_fills_cells_and_ptm_adds_a_byte_to_each_sixty_four() {
        assert_eq!(on_wire(Some(40), 0, LinkLayer::Atm, 14 + 52), 2 * 53);
        assert_eq!(on_wire(Some(40), 0, LinkLayer::Atm, 14 + 57), 3 * 53);
        assert_eq!(on_wire(Some(40), 0, LinkLayer::Atm, 1_514), 33 * 53);
        assert_eq!(on_wire(Some(30), 0, LinkLayer::Ptm, 1_514), 1_530 + 24);
        assert_eq!(on_wire(Some(0), 64, LinkLayer::Ptm, 14 + 20), 65);
    }
}
