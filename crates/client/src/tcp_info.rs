//! `TCP_INFO` and TCP's delayed acknowledgements, which no safe library offers.
//!
//! Source: `struct tcp_info` of include/uapi/linux/tcp.h, Linux 6.18. It has only ever grown at its
//! end, so an older kernel returns fewer bytes, and the missing values are `None` here.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// TCP's counters for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// The smoothed round-trip time. After the handshake, it is the only sample.
    pub(crate) rtt: Option<Duration>,
    /// The smallest round-trip time.
    pub(crate) min_rtt: Option<Duration>,
    /// The largest segment that we offered to receive.
    pub(crate) advertised_mss: Option<u32>,
    /// The segments retransmitted, including SYNs.
    pub(crate) again: Option<u32>,
    /// The data segments received, including repeated ones.
    pub(crate) data_segments_in: Option<u32>,
    /// The data segments sent.
    pub(crate) data_segments_out: Option<u32>,
    /// The payload received in order.
    pub(crate) bytes_in: Option<u64>,
    /// The payload sent, each byte counted once.
    pub(crate) bytes_out: Option<u64>,
}

impl TcpInfo {
    /// Reads the values of this socket; all are `None` if it is not a TCP socket.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let mut bytes = [0_u8; 256];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, which `bytes` has, and sets `length` to
        // how many it wrote; every value of a byte is valid.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if done == 0 {
            Self::read(&bytes[..bytes.len().min(length as usize)])
        } else {
            Self::default()
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let micros = |at| u32_at(at).map(|us| Duration::from_micros(us.into()));
        Self {
            rtt: micros(68),
            // Before the first sample, the kernel returns the largest number.
            min_rtt: micros(148).filter(|rtt| *rtt < Duration::from_secs(1 << 12)),
            advertised_mss: u32_at(84),
            again: u32_at(100),
            data_segments_in: u32_at(152),
            data_segments_out: u32_at(156),
            bytes_in: u64_at(128),
            bytes_out: u64_at(200).and_then(|sent| sent.checked_sub(u64_at(208)?)),
        }
    }
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
    }

    #[test]
    fn an_old_kernels_shorter_form_and_other_sockets_give_less() {
        assert_eq!(TcpInfo::read(&[0; 104]).again, Some(0));
        assert_eq!(TcpInfo::read(&[0; 104]).data_segments_in, None);
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert_eq!(TcpInfo::of(&udp), TcpInfo::default());
    }
}
