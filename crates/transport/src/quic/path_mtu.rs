//! The search for longer datagrams that the path takes (RFC 9000, 14.3; RFC 8899).
//!
//! A probe is a datagram of a PING and padding. If it is acknowledged, the payload grows. A probe
//! that is lost three times (RFC 8899, 5.1.2) is too long; its loss tells nothing about congestion
//! (RFC 9000, 14.4). The search tries the longest datagram first, because most paths take it. Then
//! it tries the middle between the longest that is known to pass and the shortest that is not
//! (5.3.2 leaves the order open). It ends when the two are closer than [`CLOSE`].
//!
//! Differences: it searches once. RFC 8899's timer of ten minutes, after which 5.1.1 would try
//! longer datagrams again, and its detection of black holes (4.3) are not modelled, because links
//! keep their `mtu`.

/// The most probes of the same length (RFC 8899, 5.1.2, MAX_PROBES).
const MOST_PROBES: u8 = 3;

/// A difference that is not worth another probe, as in quinn-proto 0.11.
const CLOSE: u16 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathMtu {
    /// The length that is known to pass, in bytes of UDP payload.
    passes: u16,
    /// The longest length that may still pass.
    most: u16,
    /// The length of the next probe in bytes; `None`: the search is over.
    next: Option<u16>,
    /// The number and the length of the probe under way.
    probe: Option<(u64, u16)>,
    lost: u8,
}

impl PathMtu {
    /// Starts a search up to `most`; `None`: no search.
    pub(super) fn new(payload: u16, most: Option<u16>) -> Self {
        let most = most.unwrap_or(payload);
        Self { passes: payload, most, next: (most > payload).then_some(most), probe: None, lost: 0 }
    }

    /// Returns the length of the probe to send now, if any.
    pub(super) fn next(&self) -> Option<u16> {
        self.next.filter(|_| self.probe.is_none())
    }

    pub(super) fn note_sent(&mut self, number: u64) {
        self.probe = self.next.map(|bytes| (number, bytes));
    }

    pub(super) fn is_probe(&self, number: u64) -> bool {
        self.probe.is_some_and(|(probe, _)| probe == number)
    }

    /// Notes that the probe has arrived. Returns the payload that the path takes.
    pub(super) fn note_acked(&mut self) -> Option<u16> {
        let (_, bytes) = self.probe.take()?;
        self.passes = bytes;
        self.go_on();
        Some(bytes)
    }

    /// Notes that the probe was lost.
    pub(super) fn note_lost(&mut self) {
        let Some((_, bytes)) = self.probe.take() else { return };
        self.lost += 1;
        if self.lost == MOST_PROBES {
            self.most = bytes - 1;
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        self.lost = 0;
        let apart = self.most - self.passes;
        self.next = (apart >= CLOSE).then_some(self.passes + apart.div_ceil(2));
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Returns the result of a search on a path that takes `limit` bytes, and the lengths of all
    /// probes.
    fn search(payload: u16, most: u16, limit: u16) -> (u16, Vec<u16>) {
        let mut mtu = PathMtu::new(payload, Some(most));
        let mut probes = Vec::new();
        while let Some(bytes) = mtu.next() {
            let number = probes.len() as u64;
            mtu.note_sent(number);
            assert!(mtu.is_probe(number));
            assert_eq!(mtu.next(), None);
            probes.push(bytes);
            if bytes <= limit {
                assert_eq!(mtu.note_acked(), Some(bytes));
            } else {
                mtu.note_lost();
            }
        }
        (mtu.passes, probes)
    }

    #[test]
    fn the_longest_is_tried_first() {
        assert_eq!(search(1200, 1472, 1472), (1472, vec![1472]));
        assert_eq!(search(1200, 1200, 1472), (1200, vec![]));
        assert_eq!(PathMtu::new(1200, None).next(), None);
    }

    #[test]
    fn three_losses_make_a_length_too_long() {
        let (found, probes) = search(1200, 1472, 1200);
        assert_eq!(found, 1200);
        assert_eq!(probes[..6], [1472, 1472, 1472, 1336, 1336, 1336]);
    }

    #[test]
    fn it_ends_close_below_what_passes() {
        for limit in 1200..=1472 {
            let (found, probes) = search(1200, 1472, limit);
            assert!(found <= limit && limit - found <= CLOSE, "{limit}: {found}");
            assert!(probes.len() <= 3 * 5, "{limit}: {probes:?}");
        }
        // The largest possible payload.
        let (found, _) = search(1200, 65_507, 60_000);
        assert!((60_000 - CLOSE..=60_000).contains(&found));
    }
}
