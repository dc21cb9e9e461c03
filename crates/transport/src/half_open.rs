//! The half-open connections of a listener: SYNs that were answered but whose handshake is not
//! complete.
//!
//! Source: Linux 6.1.192, `tcp_conn_request` (net/ipv4/tcp_input.c), `inet_csk_reqsk_queue_is_full`
//! (include/net/inet_connection_sock.h) and `reqsk_timer_handler`
//! (net/ipv4/inet_connection_sock.c); RFC 4987. The queue is full when it holds more entries than
//! listen(2)'s backlog: like the queue of connections to accept, it has room for one more. A SYN is
//! then answered with a cookie, or dropped if cookies are off. Without cookies, the last quarter of
//! `tcp_max_syn_backlog` is reserved for known addresses, and all addresses here are unknown. A
//! SYN-ACK is repeated after 1, 2, 4, ... seconds, `tcp_synack_retries` times. It is repeated fewer
//! times when more than half of the queue is taken and most entries are old.
//!
//! Linux's timer wheel rounds these times up (`calc_wheel_index`): with 100 jiffies a second, to 80 ms
//! for waits up to 5 s, and to 640 ms for longer ones. So entries that came one after the other are
//! due together, and those that take their places come at once. Which entries share a slot depends
//! on the jiffy at which the flood begins, and decides how many are given up early. The wheel is an
//! option ([`SynAckTimers`]), because all runs before it had exact times.
//!
//! Differences: an [`Endpoint`](crate::tcp::Endpoint) repeats its SYN-ACK itself, following its
//! settings, and always counts as young. A cookie keeps the options of the SYN, as Linux's cookies
//! do with timestamps.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::settings::{any, whole};
use narrows_units::{MaybeTime, Span, Time, keys, words};

use crate::tcp::slot;

keys! {
    #[derive(Copy, Eq)]
    /// A host's limits for its listeners.
    pub struct HalfOpenLimits {
        /// `net.ipv4.tcp_max_syn_backlog`.
        max_syn_backlog: u32 = 4096, whole(1, 1_000_000);
        /// `net.ipv4.tcp_synack_retries`.
        synack_retries: u8 = 5, whole(0, 20);
        /// `net.ipv4.tcp_syncookies`.
        cookies: Cookies = Cookies::WhenFull, any();
        /// When SYN-ACKs to addresses of a flood are repeated.
        synack_timers: SynAckTimers = SynAckTimers::Exact, any();
    }
}

words! {
    /// When a SYN is answered without storing an entry.
    pub enum Cookies {
        /// 0: SYNs are dropped when the queue is full.
        Never = "never",
        /// 1: SYNs are answered in this way when the queue is full.
        WhenFull = "when-full",
        /// 2: every SYN is answered in this way.
        Always = "always",
    }
}

words! {
    /// When a timer of a half-open connection fires.
    pub enum SynAckTimers {
        /// When its time is over.
        Exact = "exact",
        /// At a slot of the timer wheel (Linux since 4.8).
        Wheel = "wheel",
    }
}

impl HalfOpenLimits {
    /// The defaults of Linux on a host with a few gigabytes of memory.
    pub const LINUX: Self = Self {
        max_syn_backlog: 4096,
        synack_retries: 5,
        cookies: Cookies::WhenFull,
        synack_timers: SynAckTimers::Exact,
    };
}

/// What a listener has done about SYNs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Current entries.
    pub entries: u32,
    /// SYNs that arrived.
    pub syns: u64,
    /// SYNs that were dropped.
    pub dropped: u64,
    /// SYNs that were answered with a cookie.
    pub cookies: u64,
    /// SYN-ACKs that were repeated to forged addresses.
    pub repeated: u64,
    /// Entries that were given up.
    pub expired: u64,
}

/// What happens to a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It gets an entry, and is answered.
    Entry,
    /// It is answered without an entry.
    Cookie,
    /// It is dropped.
    Dropped,
}

/// An entry for a forged address: its handshake never completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's number for the flow of the SYN.
    pub flow: u32,
    /// The sequence number of the SYN.
    pub seq: u32,
    due: Time,
}

/// The queue of a listener.
#[derive(Debug)]
pub struct HalfOpen {
    limits: HalfOpenLimits,
    /// The backlog of listen(2).
    backlog: u32,
    /// A jiffy.
    tick: Span,
    /// The number of entries of connections.
    connections: u32,
    /// Entries of forged addresses, one list for each number of timeouts, each in order of due
    /// time.
    requests: Vec<VecDeque<Request>>,
    /// When the pending timer is due.
    armed: MaybeTime,
    counts: Counts,
}

impl HalfOpen {
    /// Creates the queue of a listener with this backlog of listen(2), on a host whose timers count
    /// in units of `tick`.
    pub fn new(backlog: u32, limits: HalfOpenLimits, tick: Span) -> Self {
        Self {
            limits,
            backlog,
            tick,
            connections: 0,
            requests: vec![VecDeque::new()],
            armed: MaybeTime::NONE,
            counts: Counts::default(),
        }
    }

    /// Returns what has happened so far.
    pub fn counts(&self) -> Counts {
        Counts { entries: self.len(), ..self.counts }
    }

    fn len(&self) -> u32 {
        let requests: usize = self.requests.iter().map(VecDeque::len).sum();
        self.connections + requests as u32
    }

    /// Decides about a SYN. `acceptable`: there is room in the queue of connections that wait to be
    /// accepted.
    pub fn admit(&mut self, acceptable: bool) -> Admission {
        let HalfOpenLimits { max_syn_backlog, cookies, .. } = self.limits;
        let len = self.len();
        self.counts.syns += 1;
        let full = len > self.backlog;
        let by_cookie = match cookies {
            Cookies::Always => true,
            Cookies::WhenFull => full,
            Cookies::Never => false,
        };
        let reserved = cookies == Cookies::Never
            && i64::from(max_syn_backlog) - i64::from(len) < i64::from(max_syn_backlog >> 2);
        if !acceptable || (full && !by_cookie) || reserved {
            self.counts.dropped += 1;
            Admission::Dropped
        } else if by_cookie {
            self.counts.cookies += 1;
            Admission::Cookie
        } else {
            Admission::Entry
        }
    }

    /// Adds an entry for a connection.
    pub fn enter(&mut self) {
        self.connections += 1;
    }

    /// Removes the entry of a connection whose handshake is complete or given up.
    pub fn leave(&mut self) {
        self.connections -= 1;
    }

    /// Adds an entry for a forged address.
    pub fn enter_request(&mut self, now: Time, flow: u32, seq: u32) {
        let due = self.after(now, FIRST_TIMEOUT);
        self.requests[0].push_back(Request { flow, seq, due });
    }

    /// Returns when a timer fires that is armed at `now`.
    fn after(&self, now: Time, wait: Span) -> Time {
        match self.limits.synack_timers {
            SynAckTimers::Exact => now + wait,
            SynAckTimers::Wheel => {
                let tick = self.tick.as_us().max(1);
                slot(now, tick, wait.as_us().div_ceil(tick) as u32).0
            }
        }
    }

    /// Passes the requests that are due to `repeat`, and forgets those that have used up their
    /// retries.
    pub fn handle_timeouts(&mut self, now: Time, mut repeat: impl FnMut(Request)) {
        // An entry moves to the list behind its own, where it is not due yet.
        for timeouts in (0..self.requests.len()).rev() {
            while let Some(&request) = self.requests[timeouts].front()
                && request.due <= now
            {
                let most = self.retries();
                self.requests[timeouts].pop_front();
                if timeouts >= usize::from(most) {
                    self.counts.expired += 1;
                    continue;
                }
                self.counts.repeated += 1;
                repeat(request);
                if self.requests.len() == timeouts + 1 {
                    self.requests.push(VecDeque::new());
                }
                let wait = (FIRST_TIMEOUT * (1 << (timeouts + 1).min(32))).min(LONGEST_TIMEOUT);
                let due = self.after(now, wait);
                self.requests[timeouts + 1].push_back(Request { due, ..request });
            }
        }
    }

    /// Returns the number of retries as `reqsk_timer_handler` does: half of the room is for young
    /// entries.
    fn retries(&self) -> u8 {
        let most = self.limits.synack_retries;
        let len = u64::from(self.len());
        if 2 * len <= u64::from(self.backlog.max(8)) {
            return most;
        }
        let young = u64::from(self.connections) + self.requests[0].len() as u64;
        // With each retry fewer, twice as many entries count as young.
        (0..most.saturating_sub(2))
            .find(|&fewer| len < young << (fewer + 1))
            .map_or(most.min(2), |fewer| most - fewer)
    }

    /// Returns when the next timer is needed, unless an earlier one is pending.
    pub fn arm(&mut self) -> Option<Time> {
        let due = self.requests.iter().filter_map(|list| list.front()).map(|r| r.due).min()?;
        self.armed.is_after(due).then(|| {
            self.armed = due.into();
            due
        })
    }

    /// Returns whether the timer that expires now is the one that was set last.
    pub fn disarm(&mut self, now: Time) -> bool {
        let current = self.armed.is(now);
        if current {
            self.armed = MaybeTime::NONE;
        }
        current
    }
}

/// `TCP_TIMEOUT_INIT`.
const FIRST_TIMEOUT: Span = Span::from_secs(1);
/// `TCP_RTO_MAX`.
const LONGEST_TIMEOUT: Span = Span::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(cookies: Cookies) -> HalfOpenLimits {
        HalfOpenLimits { cookies, ..HalfOpenLimits::LINUX }
    }

    const TICK: Span = Span::from_ms(10);

    fn fill(queue: &mut HalfOpen, syns: u32) -> Vec<Admission> {
        let admit = |number| {
            let admission = queue.admit(true);
            if admission == Admission::Entry {
                queue.enter_request(Time::ZERO, 0, number);
            }
            admission
        };
        (0..syns).map(admit).collect()
    }

    #[test]
    fn a_full_queue_drops_or_sends_cookies() {
        for (cookies, beyond) in
            [(Cookies::Never, Admission::Dropped), (Cookies::WhenFull, Admission::Cookie)]
        {
            let mut queue = HalfOpen::new(10, limits(cookies), TICK);
            let admissions = fill(&mut queue, 13);
            assert_eq!(admissions[..11], [Admission::Entry; 11]);
            assert_eq!(admissions[11..], [beyond; 2]);
        }
        let mut queue = HalfOpen::new(10, limits(Cookies::Always), TICK);
        assert_eq!(fill(&mut queue, 2), [Admission::Cookie; 2]);
    }

    /// `max_syn_backlog - len < max_syn_backlog >> 2`: of 256, the entries beyond 192.
    #[test]
    fn without_cookies_the_last_quarter_is_for_known_addresses() {
        let few = HalfOpenLimits { max_syn_backlog: 256, ..limits(Cookies::Never) };
        let mut queue = HalfOpen::new(4096, few, TICK);
        let admitted = fill(&mut queue, 300).iter().filter(|&&a| a == Admission::Entry).count();
        assert_eq!(admitted, 193);
    }

    /// 1 + 2 + 4 + 8 + 16 seconds between five repetitions, and 32 until the entry is given up.
    #[test]
    fn syn_acks_are_repeated_with_doubled_timeouts() {
        let mut queue = HalfOpen::new(4096, HalfOpenLimits::LINUX, TICK);
        fill(&mut queue, 1);
        let mut at = Vec::new();
        while let Some(due) = queue.arm() {
            assert!(queue.disarm(due));
            queue.handle_timeouts(due, |_| at.push(due.as_secs_f64()));
            if queue.counts().expired == 1 {
                assert_eq!(due.as_secs_f64(), 63.0);
            }
        }
        assert_eq!(at, [1.0, 3.0, 7.0, 15.0, 31.0]);
        assert_eq!(queue.counts().entries, 0);
    }

    /// A queue that is more than half full of old entries allows two repetitions, not five.
    #[test]
    fn old_entries_of_a_crowded_queue_go_early() {
        let mut queue = HalfOpen::new(100, HalfOpenLimits::LINUX, TICK);
        fill(&mut queue, 60);
        for second in [1, 3] {
            queue.handle_timeouts(Time::ZERO + Span::from_secs(second), |_| {});
        }
        assert_eq!(queue.counts().entries, 60);
        queue.handle_timeouts(Time::ZERO + Span::from_secs(7), |_| {});
        // The kernel decides for each entry in turn. Once 50 are left, the queue is no longer
        // crowded.
        assert_eq!(queue.counts().expired, 10);
    }

    /// `calc_wheel_index` with 100 jiffies a second: 1, 2 and 4 s end at multiples of 80 ms, and 8 s
    /// at a multiple of 640 ms. A flood's entries of 70 ms become one.
    #[test]
    fn the_wheel_gathers_entries_that_came_one_after_the_other() {
        let wheel = HalfOpenLimits { synack_timers: SynAckTimers::Wheel, ..HalfOpenLimits::LINUX };
        for (start, ends) in [(40, [1.12, 3.2, 7.28, 15.36]), (120, [1.2, 3.28, 7.36, 16.0])] {
            let mut queue = HalfOpen::new(4096, wheel, TICK);
            for late in [0, 30, 60] {
                queue.enter_request(Time::ZERO + Span::from_ms(start + late), 0, 0);
            }
            for end in ends {
                let due = queue.arm().expect("a repetition is due");
                assert_eq!(due.as_secs_f64(), end);
                assert!(queue.disarm(due));
                let mut repeated = 0;
                queue.handle_timeouts(due, |_| repeated += 1);
                assert_eq!(repeated, 3);
            }
        }
    }
}
