//! Datagrams that travel in fragments.
//!
//! Source: RFC 791, 3.2; Linux 6.1 `net/ipv4/ip_fragment.c`. A host reassembles a datagram when all
//! its fragments have arrived. It gives up 30 s after the first (`IP_FRAG_TIME`), so one lost
//! fragment loses the datagram.
//!
//! Differences: the sender fragments for the shortest MTU of the path, as if it knew it; on real
//! paths, routers cut fragments that are too long again. A host has room for any number of
//! datagrams (Linux: 4 MB, `ipfrag_high_thresh`), and an identification is never used again too
//! early (RFC 4963).

use narrows_apps::LossReason;
use narrows_units::{Span, Time};

use super::Loss;
use crate::packet::Packet;

/// The datagrams of a run that are under way in fragments.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    datagrams: Vec<Datagram>,
    /// Numbers that are free.
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    whole: Packet,
    /// Fragments that have neither arrived nor been lost.
    under_way: u16,
    /// When the first fragment came.
    first_at: Option<Time>,
    /// Set if it can never be complete: the first of its losses, and the time of that loss.
    lost: Option<(Time, Loss)>,
}

/// The result of a fragment's arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Assembly {
    /// Other fragments are still missing, or lost.
    Incomplete,
    /// The datagram is complete.
    Whole(Packet),
    /// This was the last fragment of a datagram that is lost.
    Lost(Loss),
}

/// `IP_FRAG_TIME`.
const TIME_OUT: Span = Span::from_secs(30);

impl Fragments {
    /// Adds a datagram that leaves in `fragments` fragments. Returns its number.
    pub(crate) fn add(&mut self, whole: Packet, fragments: u16) -> u32 {
        let datagram = Datagram { whole, under_way: fragments, first_at: None, lost: None };
        match self.free.pop() {
            Some(number) => {
                self.datagrams[number as usize] = datagram;
                number
            }
            None => {
                self.datagrams.push(datagram);
                (self.datagrams.len() - 1) as u32
            }
        }
    }

    /// Returns the datagram that a fragment belongs to.
    pub(crate) fn whole(&self, fragment: &Packet) -> &Packet {
        &self.datagrams[fragment.datagram_number() as usize].whole
    }

    /// Handles a fragment that has reached its host over `link`.
    pub(crate) fn arrive(&mut self, now: Time, fragment: &Packet, link: u32) -> Assembly {
        let datagram = &mut self.datagrams[fragment.datagram_number() as usize];
        let first_at = *datagram.first_at.get_or_insert(now);
        if now.since(first_at) > TIME_OUT {
            return match self.lose(first_at + TIME_OUT, fragment, link, LossReason::Reassembly) {
                Some(loss) => Assembly::Lost(loss),
                None => Assembly::Incomplete,
            };
        }
        let Datagram { whole, lost, .. } = *datagram;
        match (self.settle(fragment), lost) {
            (false, _) => Assembly::Incomplete,
            (true, None) => Assembly::Whole(whole),
            (true, Some((_, loss))) => Assembly::Lost(loss),
        }
    }

    /// Handles the loss of a fragment at `at`. If no other fragment is under way, returns the
    /// datagram's loss: that of the fragment that was lost first, even if it was not known first.
    pub(crate) fn lose(
        &mut self,
        at: Time,
        fragment: &Packet,
        link: u32,
        reason: LossReason,
    ) -> Option<Loss> {
        let datagram = &mut self.datagrams[fragment.datagram_number() as usize];
        let first = match datagram.lost {
            Some(known) if known.0 <= at => known,
            _ => (at, Loss { packet: datagram.whole, link, reason }),
        };
        datagram.lost = Some(first);
        self.settle(fragment).then_some(first.1)
    }

    /// Counts a fragment that is no longer under way. Returns true if it was the last.
    fn settle(&mut self, fragment: &Packet) -> bool {
        let number = fragment.datagram_number();
        let datagram = &mut self.datagrams[number as usize];
        datagram.under_way -= 1;
        if datagram.under_way == 0 {
            self.free.push(number);
        }
        datagram.under_way == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(fragments: &mut Fragments, bytes: u16, mtu: u16) -> Vec<Packet> {
        let whole = Packet::of_bytes(7, bytes);
        let number = fragments.add(whole, whole.fragments(mtu, 0).count() as u16);
        whole.fragments(mtu, number).collect()
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// RFC 791, 3.2: fragments hold (MTU - IHL) / 8 units; on an ordinary path 1480 bytes each.
    #[test]
    fn all_but_the_last_fragment_are_as_long_as_the_mtu_allows() {
        let cut = |bytes, mtu| -> Vec<(u16, u16, bool)> {
            send(&mut Fragments::default(), bytes, mtu)
                .iter()
                .map(|fragment| (fragment.bytes, fragment.offset().0, fragment.offset().1))
                .collect()
        };
        // A message of 4096 bytes: 4104 with the UDP header, in three.
        assert_eq!(cut(4124, 1500), [(1500, 0, true), (1500, 1480, true), (1164, 2960, false)]);
        // 1480 - 20 = 1460 is no multiple of 8.
        assert_eq!(cut(1500, 1480), [(1476, 0, true), (44, 1456, false)]);
        assert_eq!(cut(1501, 1500), [(1500, 0, true), (21, 1480, false)]);
        // 65515 = 44 * 1480 + 395.
        assert_eq!(cut(65_535, 1500).last(), Some(&(415, 65_120, false)));
    }

    #[test]
    fn a_datagram_is_there_when_its_last_fragment_has_come_in_any_order() {
        let mut fragments = Fragments::default();
        let mut sent = send(&mut fragments, 4124, 1500);
        sent.swap(0, 2);
        assert!(matches!(fragments.arrive(at(1), &sent[0], 0), Assembly::Incomplete));
        assert!(matches!(fragments.arrive(at(2), &sent[1], 0), Assembly::Incomplete));
        let Assembly::Whole(whole) = fragments.arrive(at(3), &sent[2], 0) else {
            panic!("all are there")
        };
        assert_eq!((whole.bytes, whole.socket()), (4124, 7));
        // Its number is free again.
        assert_eq!(fragments.add(whole, 2), 0);
    }

    #[test]
    fn a_lost_fragment_loses_the_datagram_once() {
        let mut fragments = Fragments::default();
        let sent = send(&mut fragments, 4124, 1500);
        assert!(matches!(fragments.arrive(at(1), &sent[0], 0), Assembly::Incomplete));
        assert!(fragments.lose(at(3), &sent[1], 3, LossReason::Wire).is_none());
        // The earliest loss counts, even if it is known later.
        let loss = fragments.lose(at(2), &sent[2], 2, LossReason::Wire);
        assert_eq!(loss.map(|loss| (loss.packet.bytes, loss.link)), Some((4124, 2)));
        assert_eq!(fragments.free.len(), 1);
    }

    #[test]
    fn a_host_waits_for_30_seconds_after_the_first_fragment() {
        for (seconds, timed_out) in [(30, false), (31, true)] {
            let mut fragments = Fragments::default();
            let sent = send(&mut fragments, 2000, 1500);
            assert!(matches!(fragments.arrive(at(0), &sent[1], 0), Assembly::Incomplete));
            let assembly = fragments.arrive(at(seconds), &sent[0], 0);
            assert_eq!(matches!(assembly, Assembly::Lost(_)), timed_out, "{assembly:?}");
        }
    }
}
