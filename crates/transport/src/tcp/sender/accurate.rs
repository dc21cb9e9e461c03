//! The sender of Accurate ECN: how many packets an acknowledgement reports as marked.
//!
//! Source: RFC 9768, 3.2.2.5 and appendix A. ACE has only three bits, so an acknowledgement that
//! covers eight packets or more leaves open how often the counter has wrapped. Without the AccECN
//! option the sender assumes the worst (A.2.1); with it, the marked bytes tell (A.2.2).
//!
//! Differences: up to seven packets, the counter is taken as it is, although pure acknowledgements
//! may be marked too, and acknowledgements may be lost (Linux 7.3). An acknowledgement without
//! anything new counts only if its timestamp is newer than the latest (3.2.2.5: it may have been
//! overtaken). A segment whose AccECN option has a lower counter than before was overtaken, too.

use alloc::boxed::Box;

use crate::tcp::Flags;
use crate::tcp::accurate_ecn::{AccurateEcn, COUNTER, EcnBytes, ace_of};

/// The counters of the sender.
#[derive(Clone, Debug)]
pub(super) struct Accurate {
    /// s.cep, modulo 8.
    packets: u8,
    /// s.e0b, s.ceb and s.e1b.
    bytes: EcnBytes,
    /// What the segment under way says.
    pub(super) heard: Option<(u8, Option<AccurateEcn>)>,
    /// The latest timestamp that came with a report.
    stamp: Option<u32>,
    /// Packets and payload bytes that were reported as marked (`delivered_ce`).
    pub(super) marked: u64,
    pub(super) marked_bytes: u64,
}

impl Accurate {
    /// Creates the counters: `packets` is the last ACE that the other end has sent.
    pub(super) fn new(packets: u8) -> Box<Self> {
        Box::new(Self {
            packets,
            bytes: EcnBytes::INITIAL,
            heard: None,
            stamp: None,
            marked: 0,
            marked_bytes: 0,
        })
    }

    /// Remembers the report of a segment that will be handled next.
    pub(super) fn hear(&mut self, flags: Flags, option: Option<AccurateEcn>) {
        self.heard = Some((ace_of(flags), option));
    }

    /// Returns whether a segment with this timestamp may be the latest. `news`: it acknowledges
    /// something.
    pub(super) fn is_latest(&mut self, stamp: Option<u32>, news: bool) -> bool {
        let Some(stamp) = stamp else { return news };
        let ahead = self.stamp.map_or(1, |latest| stamp.wrapping_sub(latest) as i32);
        if ahead > 0 {
            self.stamp = Some(stamp);
        }
        ahead > 0 || (ahead == 0 && news)
    }

    /// Takes the report, and returns the packets that it adds to the marked ones. `delivered`:
    /// packets that the acknowledgement delivers; `mss`: the bytes of each.
    pub(super) fn take(
        &mut self,
        (ace, option): (u8, Option<AccurateEcn>),
        delivered: u32,
        mss: u32,
    ) -> u32 {
        let marked_bytes = match option.map(|option| self.take_bytes(&option)) {
            Some(None) => return 0,
            bytes => bytes.flatten(),
        };
        // A.2.1: the least increase that explains ACE, and the greatest.
        let least = u32::from(ace.wrapping_sub(self.packets) & 7);
        self.packets = ace;
        let mut marked = least;
        if delivered > 7 {
            let most = delivered - ((delivered - least) & 7);
            if most > least && !marked_bytes.is_some_and(|bytes| explains(bytes, least, most, mss))
            {
                marked = most;
            }
        }
        self.marked += u64::from(marked);
        marked
    }

    /// Takes the option, and returns how many more bytes are marked. Returns `None` if the segment
    /// was overtaken: one of its counters is lower than before.
    fn take_bytes(&mut self, option: &AccurateEcn) -> Option<u32> {
        let heard = option.counters(self.bytes);
        let more = |heard: u32, known: u32| heard.wrapping_sub(known) & COUNTER;
        let grown = [
            more(heard.ce, self.bytes.ce),
            more(heard.ect0, self.bytes.ect0),
            more(heard.ect1, self.bytes.ect1),
        ];
        if grown.iter().any(|&more| more > COUNTER / 2) {
            return None;
        }
        let [more, ..] = grown;
        self.bytes = heard;
        self.marked_bytes += u64::from(more);
        Some(more)
    }
}

/// A.2.2: returns whether `bytes` marked bytes are few enough for `least` packets rather than
/// `most`: packets are full, or at least half full.
fn explains(bytes: u32, least: u32, most: u32, mss: u32) -> bool {
    let [bytes, least, most, mss] = [bytes, least, most, mss].map(u64::from);
    bytes <= mss * least && 2 * bytes < mss * most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::accurate_ecn::Order;

    const MSS: u32 = 1448;

    /// An option in which `ce` marked bytes have arrived.
    fn option(ce: u32) -> AccurateEcn {
        AccurateEcn::new(Order::Zero, EcnBytes { ce, ..EcnBytes::INITIAL }, 2)
    }

    /// RFC 9768, A.2.1: the example there has s.cep = 5 and ACE = 0, so at least 3 packets are
    /// marked, or 11, 19, ... as far as the acknowledgement covers so many.
    #[test]
    fn rfc9768_a_2_1_without_the_option_the_counter_has_wrapped_as_often_as_it_can() {
        for (delivered, ace, marked) in [
            (1, 5, 0),
            (3, 0, 3),
            (7, 0, 3),
            (7, 4, 7),
            (8, 5, 8),
            (8, 0, 3),
            (10, 0, 3),
            (11, 0, 11),
            (18, 0, 11),
            (19, 0, 19),
            (15, 5, 8),
            (16, 5, 16),
        ] {
            let mut accurate = Accurate::new(5);
            assert_eq!(accurate.take((ace, None), delivered, MSS), marked, "{delivered} {ace}");
            assert_eq!((accurate.packets, accurate.marked), (ace, marked.into()));
            assert_eq!(accurate.take((ace, None), 1, MSS), 0);
        }
    }

    /// RFC 9768, A.2.2: marked bytes tell how often the counter has wrapped.
    #[test]
    fn rfc9768_a_2_2_with_the_option_marked_bytes_tell() {
        for (delivered, ace, bytes, marked) in [
            // Not a byte is marked.
            (40, 5, 0, 0),
            // Three full packets, not 11 or more small ones.
            (11, 0, 3 * MSS, 3),
            // More bytes than three packets hold.
            (11, 0, 3 * MSS + 1, 11),
            (11, 0, 11 * MSS, 11),
            // Eight packets: the counter looks as before.
            (8, 5, 8 * MSS, 8),
            (8, 5, 1, 8),
            // Few marks, but more than half of what the many would carry: packets are small.
            (8, 4, 7 * MSS, 7),
        ] {
            let mut accurate = Accurate::new(5);
            let heard = (ace, Some(option(bytes)));
            assert_eq!(accurate.take(heard, delivered, MSS), marked, "{delivered} {ace} {bytes}");
            assert_eq!(accurate.marked_bytes, u64::from(bytes));
        }
    }

    /// Counters of bytes have 24 bits (3.2.3); an option that was overtaken changes nothing.
    #[test]
    fn byte_counters_wrap_and_never_go_back() {
        let mut accurate = Accurate::new(5);
        let near = COUNTER - 1;
        accurate.bytes.ce = near;
        for (ce, more) in [(near, Some(0)), (3, Some(5)), (near, None), (3, Some(0))] {
            assert_eq!(accurate.take_bytes(&option(ce)), more, "{ce}");
        }
        assert_eq!((accurate.marked_bytes, accurate.bytes.ce), (5, 3));
    }

    /// RFC 9768, 3.2.2.5: only the latest report counts, whether or not it acknowledges anything.
    #[test]
    fn a_report_that_was_overtaken_does_not_count() {
        let mut accurate = Accurate::new(5);
        for (stamp, news, latest) in [
            (Some(10), false, true),
            (Some(10), false, false),
            (Some(10), true, true),
            (Some(9), true, false),
            (Some(11), false, true),
            (None, false, false),
            (None, true, true),
            (Some(10), true, false),
        ] {
            assert_eq!(accurate.is_latest(stamp, news), latest, "{stamp:?} {news}");
        }
    }
}
