//! `TCP_INFO` and TCP's delayed acknowledgements, which no safe library offers.
//!
//! Source: `struct tcp_info` of include/uapi/linux/tcp.h, Linux 6.18. It has only ever grown at its
//! end, so an older kernel returns fewer bytes, and the missing values are `None` here.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// TCP's counters for a connection; `None`: this kernel does not have them, or it is not a TCP
/// socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpInfo {
    /// Whether ECN was negotiated (RFC 3168).
    pub ecn: Option<bool>,
    /// Whether both ends send timestamps (RFC 7323).
    pub timestamps: Option<bool>,
    /// Whether both ends accept selective acknowledgements (RFC 2018).
    pub sack: Option<bool>,
    /// Whether both ends scale windows (RFC 7323).
    pub window_scaling: Option<bool>,
    /// Whether the other end took the data in our SYN (RFC 7413).
    pub syn_data: Option<bool>,
    /// The smoothed round-trip time. After the handshake, it is the only sample.
    pub rtt: Option<Duration>,
    /// The smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// The congestion window, in segments.
    pub cwnd: Option<u32>,
    /// The slow-start threshold, in segments; the largest 31-bit number if it is unbounded.
    pub ssthresh: Option<u32>,
    /// The payload of a full segment that we send.
    pub segment: Option<u32>,
    /// The segments in flight: sent, neither acknowledged nor known to be lost or to have arrived.
    pub in_flight: Option<u32>,
    /// The rate to which sent segments are spread, in bytes per second, or to which they would be
    /// if the socket paced; `None` also if it has no limit.
    pub pacing_rate: Option<u64>,
    /// What the congestion control does (`tcp_ca_state`): 0 open, 1 disorder, 2 CWR, 3 recovery, 4
    /// loss.
    pub control_state: Option<u8>,
    /// The largest segment that we offered to receive.
    pub advertised_mss: Option<u32>,
    /// The segments retransmitted, including SYNs.
    pub again: Option<u32>,
    /// The segments sent, of every kind.
    pub segments_out: Option<u32>,
    /// The segments received, of every kind.
    pub segments_in: Option<u32>,
    /// The data segments received, including repeated ones.
    pub data_segments_in: Option<u32>,
    /// The data segments sent.
    pub data_segments_out: Option<u32>,
    /// The payload received in order. The kernel counts a FIN as a byte.
    pub bytes_in: Option<u64>,
    /// The payload sent, each byte counted once.
    pub bytes_out: Option<u64>,
    /// The payload sent, each byte counted as often as it was sent.
    pub bytes_sent: Option<u64>,
    /// The payload that the other end has acknowledged.
    pub bytes_acked: Option<u64>,
    /// For how long data were in flight.
    pub busy: Option<Duration>,
    /// For how long the other end's window held data back.
    pub window_limited: Option<Duration>,
    /// The data segments sent that arrived with the CE mark.
    pub delivered_marked: Option<u32>,
    /// The data segments received that had to wait for an earlier one.
    pub out_of_order: Option<u32>,
}

impl TcpInfo {
    /// Reads the values of this socket; all are `None` if it is not a TCP socket.
    pub fn of(socket: impl AsFd) -> Self {
        let mut bytes = [0; 256];
        option(socket, libc::TCP_INFO, &mut bytes).map_or_else(Self::default, Self::read)
    }

    fn read(bytes: &[u8]) -> Self {
        let u32_at = |at| u32_at(bytes, at);
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let micros = |at| u32_at(at).map(|us| Duration::from_micros(us.into()));
        let in_flight = || {
            // `tcp_packets_in_flight`: out and again, without what was SACKed or lost.
            let [out, sacked, lost, again] =
                [u32_at(24)?, u32_at(28)?, u32_at(32)?, u32_at(36)?].map(u64::from);
            u32::try_from((out + again).saturating_sub(sacked + lost)).ok()
        };
        let uses = |bit: u8| bytes.get(5).map(|options| options & bit != 0);
        Self {
            // TCPI_OPT_* of include/uapi/linux/tcp.h.
            timestamps: uses(1),
            sack: uses(2),
            window_scaling: uses(4),
            ecn: uses(8),
            syn_data: uses(32),
            rtt: micros(68),
            // Before the first sample, the kernel returns the largest number.
            min_rtt: micros(148).filter(|rtt| *rtt < Duration::from_secs(1 << 12)),
            cwnd: u32_at(80),
            ssthresh: u32_at(76),
            segment: u32_at(16),
            in_flight: in_flight(),
            pacing_rate: u64_at(104).filter(|rate| *rate < u64::MAX),
            control_state: bytes.get(1).copied(),
            advertised_mss: u32_at(84),
            again: u32_at(100),
            segments_out: u32_at(136),
            segments_in: u32_at(140),
            data_segments_in: u32_at(152),
            data_segments_out: u32_at(156),
            bytes_in: u64_at(128),
            bytes_out: u64_at(200).and_then(|sent| sent.checked_sub(u64_at(208)?)),
            bytes_sent: u64_at(200),
            bytes_acked: u64_at(120),
            busy: u64_at(168).map(Duration::from_micros),
            window_limited: u64_at(176).map(Duration::from_micros),
            delivered_marked: u32_at(196),
            out_of_order: u32_at(224),
        }
    }
}

/// What a congestion control tells of itself beyond [`TcpInfo`]; `None`: this control does not tell
/// it.
///
/// Source: `union tcp_cc_info` of include/uapi/linux/inet_diag.h, and net/ipv4/tcp_bbr.c for the
/// gains of each phase, Linux 6.18.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlInfo {
    /// BBR's phase: `startup`, `drain`, `probe-bw` or `probe-rtt`.
    pub phase: Option<&'static str>,
    /// DCTCP.Alpha (RFC 8257, 3.3), 0 to 1, of a connection that uses ECN.
    pub alpha: Option<f64>,
}

impl ControlInfo {
    /// Asks this socket's congestion control; both are `None` if it is not a TCP socket.
    pub fn of(socket: impl AsFd) -> Self {
        let (mut name, mut bytes) = ([0; 16], [0; 64]);
        let Some(name) = option(&socket, libc::TCP_CONGESTION, &mut name) else {
            return Self::default();
        };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        option(&socket, TCP_CC_INFO, &mut bytes).map_or_else(Self::default, |said| match name {
            b"bbr" => Self { phase: phase(said), alpha: None },
            b"dctcp" => Self { phase: None, alpha: alpha(said) },
            _ => Self::default(),
        })
    }
}

/// Of linux/tcp.h.
const TCP_CC_INFO: libc::c_int = 26;

/// Reads the phase from `struct tcp_bbr_info`: its gains, in units of 1/256, differ by phase.
fn phase(bytes: &[u8]) -> Option<&'static str> {
    let [pacing_gain, cwnd_gain] = [u32_at(bytes, 12)?, u32_at(bytes, 16)?];
    Some(match (pacing_gain, cwnd_gain) {
        // 2 / ln 2, and its reciprocal.
        (739, _) => "startup",
        (88, _) => "drain",
        (_, 256) => "probe-rtt",
        _ => "probe-bw",
    })
}

/// Reads alpha from `struct tcp_dctcp_info`, where it is in units of 1/1024.
fn alpha(bytes: &[u8]) -> Option<f64> {
    let is_enabled = *bytes.first()? != 0;
    is_enabled.then_some(f64::from(u32_at(bytes, 4)?) / 1024.0)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads a TCP option of a socket into `bytes`, and returns what was read; `None`: it has none.
fn option(socket: impl AsFd, name: libc::c_int, bytes: &mut [u8]) -> Option<&[u8]> {
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `bytes` has, and sets `length` to how
    // many it wrote; every value of a byte is valid.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let length = bytes.len().min(length as usize);
    (done == 0).then(|| &bytes[..length])
}

/// When a socket acknowledges received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledging {
    /// After a delay (`TCP_QUICKACK` 0), until the kernel decides otherwise.
    Late,
    /// At once, including everything not yet acknowledged (`TCP_QUICKACK` 1).
    Now,
}

/// Sets when this socket acknowledges.
pub(crate) fn acknowledge(socket: impl AsFd, when: Acknowledging) {
    let value = libc::c_int::from(when == Acknowledging::Now);
    // SAFETY: the kernel reads an int from an int. Its answer does not matter: without the option,
    // TCP acknowledges as it likes.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn counts_what_a_connection_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("open");
        let mut server = listener.accept().expect("a connection").0;
        client.write_all(b"seventeen bytes..").expect("written");
        let mut read = [0; 17];
        server.read_exact(&mut read).expect("read");
        let info = TcpInfo::of(&server);
        assert_eq!(info.bytes_in, Some(17));
        assert_eq!(info.data_segments_in, Some(1));
        assert_eq!(info.again, Some(0));
        assert_eq!(TcpInfo::of(&client).bytes_out, Some(17));
        assert!(TcpInfo::of(&client).rtt.is_some_and(|rtt| rtt > Duration::ZERO));
        assert_eq!(TcpInfo::of(&client).ssthresh, Some(0x7fff_ffff));
        assert!(TcpInfo::of(&client).segment.is_some_and(|bytes| bytes > 500));
        assert!(TcpInfo::of(&client).pacing_rate.is_some_and(|rate| rate > 0));
        assert_eq!(TcpInfo::of(&client).control_state, Some(0));
    }

    #[test]
    fn a_control_tells_its_phase_or_alpha() {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let of_gains = |pacing, cwnd| phase(&words(&[0, 0, 0, pacing, cwnd]));
        assert_eq!(of_gains(739, 739), Some("startup"));
        assert_eq!(of_gains(88, 739), Some("drain"));
        assert_eq!(of_gains(320, 512), Some("probe-bw"));
        assert_eq!(of_gains(256, 256), Some("probe-rtt"));
        assert_eq!(alpha(&words(&[1, 256, 0, 0])), Some(0.25));
        assert_eq!(alpha(&words(&[0, 1024, 0, 0])), None, "without ECN it is Reno");
        assert_eq!((phase(&[0; 16]), alpha(&[1, 0, 0, 0])), (None, None));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert_eq!(ControlInfo::of(&socket), ControlInfo::default());
    }

    #[test]
    fn an_old_kernels_shorter_form_and_other_sockets_give_less() {
        assert_eq!(TcpInfo::read(&[0; 104]).again, Some(0));
        assert_eq!(TcpInfo::read(&[0; 104]).data_segments_in, None);
        assert_eq!(TcpInfo::read(&[0; 104]).pacing_rate, None);
        let mut bytes = [0; 112];
        for (at, value) in [(24, 10), (28, 3), (32, 2), (36, 1)] {
            bytes[at] = value;
        }
        assert_eq!(TcpInfo::read(&bytes).in_flight, Some(6));
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert_eq!(TcpInfo::of(&udp), TcpInfo::default());
    }
}
