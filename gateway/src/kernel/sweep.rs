//! Removes entries whose time is over, or closes them with a FIN.
//!
//! The programs have no timers. So once a second a sweep goes through all entries, by the rules of
//! PROTOCOL.md, "Time". A query that the server does not answer within `timeout` goes to the kernel
//! when its client sends it again. A connection that is silent after its reply gets a FIN after
//! `idle`. Both are removed after [`LINGER_MS`].
//!
//! The programs may change an entry while it is read, judged and written. So it is read again just
//! before writing, and written only if it is unchanged and still there. This leaves a window of a
//! few microseconds after seconds of silence. A change in that window has the effect of a lost
//! segment: the client sends again.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use narrows_wire::tcp::Options;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket,
};

use super::KernelError;
use super::scan::scan;
use super::settings::Plain;
use super::skeleton::types::{flow, flow_key};
use crate::core::segment::Outgoing;

/// How long an entry that is closing or waits for the kernel stays, in milliseconds: until its
/// cookie has expired (PROTOCOL.md, "Time").
pub const LINGER_MS: u32 = 64_000;
/// How long a connection has nothing to say, in milliseconds, before it is closed because the kernel
/// could not take it over.
const CALM_MS: u32 = 1_000;
/// The most FINs of one sweep. If many connections become idle at once, closing them takes several
/// seconds.
const FINS: usize = 4096;

/// How many clients' routes are looked up after one sweep.
const WAITING: usize = 8;

/// States of `enum flow_state` in `bpf/types.h`.
mod state {
    pub(super) const SYN: u8 = 1;
    pub(super) const QUERY: u8 = 2;
    pub(super) const REPLIED: u8 = 3;
    pub(super) const IDLE: u8 = 4;
    pub(super) const CLOSING: u8 = 5;
    pub(super) const SLOW: u8 = 6;
    pub(super) const KERNEL: u8 = 7;
    pub(super) const OPEN: u8 = 8;
}
/// Flags of `enum flow_flag` in `bpf/types.h`.
mod flag {
    pub(super) const TIMESTAMPS: u8 = 1;
    pub(super) const CLIENT_FIN: u8 = 8;
    pub(super) const QUERY_UNACKED: u8 = 16;
    pub(super) const AT_ONCE: u8 = 64;
}

/// The names of the states, by number.
pub const STATES: [&str; 9] =
    ["free", "syn", "query", "replied", "idle", "closing", "slow", "kernel", "open"];

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Entries that were removed.
    pub expired: u64,
    /// Connections that got a FIN.
    pub closed: u64,
    /// Existing entries, by state.
    pub states: [u64; STATES.len()],
}

/// Removes and closes the entries of one gateway.
#[derive(Debug)]
pub struct Sweeper {
    v4: OwnedFd,
    /// `None` if the kernel has no IPv6.
    v6: Option<OwnedFd>,
    /// Whether buckets held anything at the last count, or may have held anything before it.
    buckets_used: bool,
}

/// What happens to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryAction {
    Keep,
    Remove,
    Close,
    /// The kernel gets the connection when the client asks again.
    Leave,
}

impl Sweeper {
    /// Opens the sockets for FINs. Only this needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn new() -> Result<Self, KernelError> {
        let open = |family| {
            // IPPROTO_RAW: the caller provides the IP header (raw(7), ipv6(7)).
            socket(
                family,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
                SockProtocol::Raw,
            )
        };
        let v4 = open(AddressFamily::Inet).map_err(|error| {
            KernelError::refused("opening a raw socket", io::Error::from(error))
        })?;
        Ok(Self { v4, v6: open(AddressFamily::Inet6).ok(), buckets_used: true })
    }

    /// Goes through all entries. `servers` are the server addresses by number, with the DNS port.
    /// Some of the clients that have waited too long for replies go to `waiting`, with their
    /// servers.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not show them.
    pub fn sweep(
        &mut self,
        maps: &Maps<'_>,
        times: Times,
        servers: &[Option<SocketAddr>],
        waiting: &mut Vec<(SocketAddr, SocketAddr)>,
    ) -> Result<Swept, KernelError> {
        let mut swept = Swept::default();
        let mut due = Vec::new();
        let mut buckets = vec![0u32; maps.syncache_buckets.max_entries() as usize];
        scan(maps.flows, |key: &flow_key, flow: &flow| {
            if let Some(count) = swept.states.get_mut(usize::from(flow.state)) {
                *count += 1;
            }
            if waits(flow, times) && waiting.len() < WAITING {
                if let Some(Some(server)) = servers.get(usize::from(key.server)) {
                    waiting.push((client(key), *server));
                }
            }
            let action = judge(flow, times);
            if action != EntryAction::Keep {
                due.push((*key, *flow, action));
            } else if flow.state == state::SYN {
                let size = buckets.len().max(1);
                if let Some(count) = buckets.get_mut(bucket(key) as usize % size) {
                    *count += 1;
                }
            }
        })?;
        let mut fins = 0;
        for (key, seen, action) in due {
            let Ok(Some(now)) = maps.flows.lookup(key.bytes(), MapFlags::ANY) else { continue };
            if now != seen.bytes() {
                continue;
            }
            match action {
                EntryAction::Keep => {}
                EntryAction::Remove => {
                    if maps.flows.delete(key.bytes()).is_ok() {
                        swept.expired += 1;
                    }
                    // Few entries have open queries, and nobody uses open queries without an entry.
                    if let (Some(opens), state::OPEN | state::KERNEL) = (maps.opens, seen.state) {
                        let _ = opens.delete(key.bytes());
                    }
                }
                EntryAction::Leave => {
                    let slow = flow { state: state::SLOW, seen_ms: times.now_ms, ..seen };
                    // An entry that is gone by now needs no change.
                    let _ = maps.flows.update(key.bytes(), slow.bytes(), MapFlags::EXIST);
                }
                EntryAction::Close if fins < FINS => {
                    fins += 1;
                    let closing = flow { state: state::CLOSING, seen_ms: times.now_ms, ..seen };
                    let Some(Some(server)) = servers.get(usize::from(key.server)) else {
                        // The address is no longer that of a server.
                        let _ = maps.flows.delete(key.bytes());
                        continue;
                    };
                    if maps.flows.update(key.bytes(), closing.bytes(), MapFlags::EXIST).is_ok() {
                        // A FIN that is lost here is like one that the network loses: the entry is
                        // removed, and the client closes later.
                        let _ = self.send(client(&key), &fin(&key, &seen, *server));
                        swept.closed += 1;
                    }
                }
                EntryAction::Close => {}
            }
        }
        if let Some(opens) = maps.opens {
            forget_opens(opens, maps.flows);
        }
        let used = buckets.iter().any(|&count| count > 0);
        if used || self.buckets_used {
            recount(maps, &buckets);
        }
        self.buckets_used = used;
        Ok(swept)
    }

    fn send(&self, client: SocketAddr, packet: &[u8]) -> io::Result<()> {
        let socket = if client.is_ipv4() { Some(&self.v4) } else { self.v6.as_ref() };
        let socket = socket.ok_or(io::ErrorKind::Unsupported)?;
        // The segment contains the port. A raw socket accepts none (raw(7): EINVAL for IPv6).
        let to = SockaddrStorage::from(SocketAddr::new(client.ip(), 0));
        sendto(socket.as_raw_fd(), packet, &to, MsgFlags::empty())?;
        Ok(())
    }
}

/// The maps that a sweep reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'a> {
    /// Entries.
    pub flows: &'a MapHandle,
    /// Entries SYN, by bucket.
    pub syncache_buckets: &'a MapHandle,
    /// The sum of all buckets, if the programs keep one.
    pub syncache_entries: Option<&'a MapHandle>,
    /// The open queries of connections in state OPEN.
    pub opens: Option<&'a MapHandle>,
}

/// The time of a sweep and how long entries may wait, in milliseconds of the boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time, modulo 2^32.
    pub now_ms: u32,
    /// For the server's reply.
    pub timeout_ms: u32,
    /// For the server's reply over UDP, before the kernel's TCP asks.
    pub patience_ms: u32,
    /// For the client's next segment.
    pub idle_ms: u32,
    /// The kernel takes no connection over, so those that ask nothing are closed. Their clients
    /// connect anew, to the kernel's TCP.
    pub no_adoption: bool,
    /// The same for connections whose clients scale their windows.
    pub no_scaled_adoption: bool,
}

/// Returns how many milliseconds have passed since an entry's last packet.
fn unused(flow: &flow, times: Times) -> u32 {
    let unused = times.now_ms.wrapping_sub(flow.seen_ms);
    // The entry's last packet came after `now` was read, so no time has passed.
    if unused > u32::MAX / 2 { 0 } else { unused }
}

fn judge(flow: &flow, times: Times) -> EntryAction {
    let unused = unused(flow, times);
    let scaled = flow.client_wscale != NO_SCALE;
    let unadoptable = times.no_adoption || times.no_scaled_adoption && scaled;
    match flow.state {
        state::SYN | state::KERNEL if unused >= times.timeout_ms => EntryAction::Remove,
        // If its query was acknowledged, the client does not send it again.
        state::QUERY if unused >= times.timeout_ms && flow.flags & flag::AT_ONCE != 0 => {
            EntryAction::Close
        }
        state::QUERY if unused >= times.timeout_ms => EntryAction::Leave,
        state::REPLIED | state::IDLE | state::SLOW if unadoptable && unused >= CALM_MS => {
            EntryAction::Close
        }
        state::REPLIED | state::IDLE if unused >= times.idle_ms => EntryAction::Close,
        // The client has sent nothing for so long that it must be gone.
        state::OPEN if unused >= times.idle_ms => EntryAction::Remove,
        state::SLOW | state::CLOSING if unused >= LINGER_MS => EntryAction::Remove,
        _ => EntryAction::Keep,
    }
}

/// Returns whether the server's reply over UDP was late, or the client got another reply.
fn waits(flow: &flow, times: Times) -> bool {
    match flow.state {
        state::SLOW | state::KERNEL => true,
        state::QUERY => unused(flow, times) >= times.patience_ms,
        _ => false,
    }
}

/// Returns the gateway's FIN, which follows the reply. It shows a client that lacks part of the
/// reply where the reply ends.
fn fin(key: &flow_key, flow: &flow, server: SocketAddr) -> Vec<u8> {
    let has = |flag| flow.flags & flag != 0;
    let replying = matches!(flow.state, state::QUERY | state::REPLIED);
    // A client that may lack part of the reply must ask again: with its query, or with its FIN if
    // the query was acknowledged.
    let ack = match (replying, has(flag::AT_ONCE)) {
        (true, true) => flow.client_next.wrapping_sub(has(flag::CLIENT_FIN).into()),
        (true, false) => flow.query_seq,
        (false, _) if has(flag::QUERY_UNACKED) => flow.query_seq,
        (false, _) => flow.client_next,
    };
    let timestamps =
        (flow.flags & flag::TIMESTAMPS != 0).then_some((flow.tsval, flow.client_tsval));
    let scaled = flow.client_wscale != NO_SCALE && timestamps.is_some();
    Outgoing {
        from: server,
        to: client(key),
        seq: flow.server_seq.wrapping_add(flow.reply_length.into()),
        ack,
        flags: FIN_ACK,
        window: if scaled { 511 } else { 65_535 },
        options: Options { timestamps, ..Options::default() },
    }
    .packet(&[])
}

/// `client_wscale` of a connection without window scales.
const NO_SCALE: u8 = 15;
/// RFC 9293 (3.1).
const FIN_ACK: u8 = 0x11;

/// Returns the client's address and port.
pub fn client(key: &flow_key) -> SocketAddr {
    SocketAddr::new(address(key.client), u16::from_be(key.port))
}

/// Returns an address from the maps, where IPv4 is stored as ::ffff:a.b.c.d.
pub fn address(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(octets).to_canonical()
}

/// FNV-1a of the key, the same as in `bpf/syncache.h`.
fn bucket(key: &flow_key) -> u32 {
    key.bytes()
        .iter()
        .fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Removes the queries of OPEN entries that a full map has forgotten, which happens silently.
fn forget_opens(opens: &MapHandle, flows: &MapHandle) {
    for key in opens.keys() {
        if let Ok(None) = flows.lookup(&key, MapFlags::ANY) {
            let _ = opens.delete(&key);
        }
    }
}

/// Corrects the counts of buckets for SYN entries that a full map has forgotten, which happens
/// silently.
fn recount(maps: &Maps<'_>, buckets: &[u32]) {
    let mut all = 0u32;
    for (number, &count) in (0u32..).zip(buckets) {
        all = all.saturating_add(count);
        let number = number.to_ne_bytes();
        let present = maps.syncache_buckets.lookup(&number, MapFlags::ANY).ok().flatten();
        if present.as_deref() != Some(&count.to_ne_bytes()) {
            let _ = maps.syncache_buckets.update(&number, &count.to_ne_bytes(), MapFlags::ANY);
        }
    }
    if let Some(entries) = maps.syncache_entries {
        let _ = entries.update(&0u32.to_ne_bytes(), &all.to_ne_bytes(), MapFlags::ANY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        now_ms: 2_000,
        timeout_ms: 3_000,
        patience_ms: 500,
        idle_ms: 10_000,
        no_adoption: false,
        no_scaled_adoption: false,
    };

    fn of(state: u8, unused_ms: u32) -> flow {
        flow { state, seen_ms: TIMES.now_ms.wrapping_sub(unused_ms), ..flow::default() }
    }

    #[test]
    fn queries_are_the_kernels_after_the_timeout() {
        let after = [
            (state::SYN, EntryAction::Remove),
            (state::QUERY, EntryAction::Leave),
            (state::KERNEL, EntryAction::Remove),
        ];
        for (state, action) in after {
            // This also holds across the wrap of the 32 bits: the time is 2000 ms.
            assert_eq!(judge(&of(state, 2_999), TIMES), EntryAction::Keep);
            assert_eq!(judge(&of(state, 3_000), TIMES), action);
        }
        assert_eq!(judge(&of(state::SLOW, LINGER_MS - 1), TIMES), EntryAction::Keep);
        assert_eq!(judge(&of(state::SLOW, LINGER_MS), TIMES), EntryAction::Remove);
    }

    #[test]
    fn silent_connections_are_closed_and_forgotten_then() {
        assert_eq!(judge(&of(state::IDLE, 9_999), TIMES), EntryAction::Keep);
        assert_eq!(judge(&of(state::IDLE, 10_000), TIMES), EntryAction::Close);
        assert_eq!(judge(&of(state::REPLIED, 10_000), TIMES), EntryAction::Close);
        assert_eq!(judge(&of(state::OPEN, 9_999), TIMES), EntryAction::Keep);
        assert_eq!(judge(&of(state::OPEN, 10_000), TIMES), EntryAction::Remove);
        assert_eq!(judge(&of(state::CLOSING, LINGER_MS - 1), TIMES), EntryAction::Keep);
        assert_eq!(judge(&of(state::CLOSING, LINGER_MS), TIMES), EntryAction::Remove);
    }

    /// Also those that the kernel should have.
    #[test]
    fn without_adoption_calm_connections_are_closed() {
        let times = Times { no_adoption: true, ..TIMES };
        for state in [state::REPLIED, state::IDLE, state::SLOW] {
            assert_eq!(judge(&of(state, CALM_MS - 1), times), EntryAction::Keep);
            assert_eq!(judge(&of(state, CALM_MS), times), EntryAction::Close);
        }
        for state in [state::SYN, state::QUERY, state::OPEN, state::CLOSING, state::KERNEL] {
            assert_eq!(judge(&of(state, CALM_MS), times), EntryAction::Keep);
        }
    }

    #[test]
    fn without_window_scaling_calm_connections_that_scale_are_closed() {
        let times = Times { no_scaled_adoption: true, ..TIMES };
        for state in [state::REPLIED, state::IDLE, state::SLOW] {
            let unscaled = flow { client_wscale: NO_SCALE, ..of(state, CALM_MS) };
            assert_eq!(judge(&unscaled, times), EntryAction::Keep);
            let scaled = flow { client_wscale: 7, ..unscaled };
            assert_eq!(judge(&scaled, times), EntryAction::Close);
            assert_eq!(judge(&scaled, TIMES), EntryAction::Keep);
        }
    }

    #[test]
    fn an_entry_seen_meanwhile_is_fresh() {
        let later = flow { state: state::QUERY, seen_ms: TIMES.now_ms + 5, ..flow::default() };
        assert_eq!(judge(&later, TIMES), EntryAction::Keep);
        assert!(!waits(&later, TIMES));
    }

    #[test]
    fn a_query_waits_when_the_servers_time_is_over() {
        assert!(!waits(&of(state::QUERY, 499), TIMES) && waits(&of(state::QUERY, 500), TIMES));
        assert!(waits(&of(state::KERNEL, 0), TIMES) && !waits(&of(state::IDLE, 9_000), TIMES));
    }

    #[test]
    fn the_fin_stands_behind_the_reply() {
        let mut client = [0; 16];
        client[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        let key = flow_key { client, port: 4242u16.to_be(), ..flow_key::default() };
        let entry = flow {
            state: state::IDLE,
            server_seq: u32::MAX - 9,
            reply_length: 100,
            client_next: 7,
            query_seq: 3,
            flags: flag::TIMESTAMPS,
            tsval: 11,
            client_tsval: 12,
            client_wscale: 7,
            ..flow::default()
        };
        let server = "192.0.2.53:53".parse().expect("an address");
        let packet = fin(&key, &entry, server);
        assert_eq!(packet.len(), 20 + 32);
        assert_eq!(packet[12..20], [192, 0, 2, 53, 192, 0, 2, 1]);
        let tcp = &packet[20..];
        assert_eq!(tcp[..4], [0, 53, 4242u16.to_be_bytes()[0], 4242u16.to_be_bytes()[1]]);
        assert_eq!(tcp[4..8], 90u32.to_be_bytes());
        assert_eq!(tcp[8..12], 7u32.to_be_bytes());
        assert_eq!(tcp[13], FIN_ACK);
        assert_eq!(tcp[14..16], 511u16.to_be_bytes());
        assert_eq!(tcp[20..], [1, 1, 8, 10, 0, 0, 0, 11, 0, 0, 0, 12]);
        // Not all of several segments were acknowledged, so the query is not acknowledged either.
        let unacked = flow { flags: flag::TIMESTAMPS | flag::QUERY_UNACKED, ..entry };
        assert_eq!(fin(&key, &unacked, server)[28..32], 3u32.to_be_bytes());
    }

    #[test]
    fn buckets_are_those_of_the_programs() {
        // FNV-1a of 20 zero bytes: each step only multiplies by the prime.
        let expected = (0..20).fold(0x811c_9dc5u32, |hash, _| hash.wrapping_mul(0x0100_0193));
        assert_eq!(bucket(&flow_key::default()), expected);
        assert_ne!(bucket(&flow_key { server: 1, ..flow_key::default() }), expected);
    }
}
