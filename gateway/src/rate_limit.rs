//! Whether the server's rate limit over UDP (RRL) will meet the gateway.
//!
//! RRL is meant for queries with a forged source. It counts replies by the client's network, and
//! above its limit it drops replies or truncates them (ISC-TN-2012-1). The gateway's queries come
//! over UDP from the client's address, so they count, although their source is proven. Nothing in
//! DNS tells the limit. So a burst is sent, as fast as the gateway lets one source ask, and the
//! replies that are missing or truncated are counted.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::server::{CHECK_NAME, query};

/// The most queries of a burst, which takes a second.
pub const MOST: u16 = 2000;
/// How long a reply may take after the last query.
const WAIT: Duration = Duration::from_secs(1);
/// The queries are sent in this many groups.
const GROUPS: u16 = 200;

/// What came back of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Queries that were sent.
    pub asked: u16,
    /// Replies that were not truncated.
    pub whole: u16,
    /// Truncated replies.
    pub truncated: u16,
}

impl Burst {
    /// Sends this many queries ([`MOST`] at most) for [`CHECK_NAME`] within a second.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn send(server: SocketAddr, queries: u16) -> io::Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(server)?;
        let asked = queries.min(MOST);
        let mut burst = Self { asked, whole: 0, truncated: 0 };
        let mut answered = vec![false; asked.into()];
        let began = Instant::now();
        for group in 0..GROUPS {
            let of = |group: u16| (u32::from(asked) * u32::from(group) / u32::from(GROUPS)) as u16;
            for id in of(group)..of(group + 1) {
                // A server whose socket is full loses queries, as its clients' do.
                let _ = socket.send(&query(id));
            }
            let until = began + Duration::from_secs(1) * u32::from(group + 1) / u32::from(GROUPS);
            burst.receive(&socket, &mut answered, until)?;
        }
        burst.receive(&socket, &mut answered, Instant::now() + WAIT)?;
        Ok(burst)
    }

    fn receive(
        &mut self,
        socket: &UdpSocket,
        answered: &mut [bool],
        until: Instant,
    ) -> io::Result<()> {
        let mut reply = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.whole + self.truncated == self.asked {
                return Ok(());
            }
            socket.set_read_timeout(Some(left))?;
            let Ok(length) = socket.recv(&mut reply) else { continue };
            // QR set: RFC 1035 (4.1.1).
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            if length < 12 || reply[2] & 0x80 == 0 {
                continue;
            }
            let Some(first) = answered.get_mut(usize::from(id)).filter(|done| !**done) else {
                continue;
            };
            *first = true;
            if reply[2] & 2 == 0 { self.whole += 1 } else { self.truncated += 1 }
        }
    }

    /// Returns whether the server held replies back. Some loss is no limit.
    pub fn is_limited(&self) -> bool {
        self.truncated > 0 || u32::from(self.whole) * 20 < u32::from(self.asked) * 19
    }

    /// Returns what an operator should know of it; `None` if there was no limit.
    pub fn caveat(&self, server: SocketAddr, query_rate: u32) -> Option<String> {
        let rate = match query_rate {
            0 => "without a limit".into(),
            rate => format!("up to {rate} a second"),
        };
        self.is_limited().then(|| {
            format!(
                "{server} {self}, so its rate limit (RRL) holds back clients that the gateway lets ask ({rate}, \
                 limits.query_rate), and the kernel's TCP must answer them, which costs more than without the gateway; hint: \
                 exempt clients with many queries (BIND: rate-limit {{ exempt-clients }}, NSD: rrl-whitelist, Knot: mod-rrl \
                 whitelist) or raise the limit"
            )
        })
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, whole, truncated } = self;
        let none = asked.saturating_sub(whole + truncated);
        write!(
            f,
            "answered {whole} of {asked} queries for {CHECK_NAME} within a second over UDP, truncated {truncated}, and did \
             not answer {none}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers `whole` queries, truncates the reply to every other further one, and
    /// drops the rest, as RRL does with `slip 2`.
    fn burst(whole: u16) -> Burst {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = server.local_addr().expect("bound");
        server.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        let thread = std::thread::spawn(move || {
            let mut query = [0; 512];
            for n in 0..120 {
                let Ok((length, from)) = server.recv_from(&mut query) else { return };
                let slips = n >= whole;
                query[2] |= 0x80 | u8::from(slips) << 1;
                if !slips || n % 2 == 0 {
                    server.send_to(&query[..length], from).expect("sent");
                }
            }
        });
        let burst = Burst::send(address, 120).expect("loopback");
        thread.join().expect("the server");
        burst
    }

    #[test]
    fn a_limit_is_seen() {
        let limited = burst(40);
        assert_eq!(limited, Burst { asked: 120, whole: 40, truncated: 40 });
        let server = "192.0.2.53:53".parse().expect("an address");
        let said = limited.caveat(server, 2000).expect("a caveat");
        assert!(said.contains("40 of 120") && said.contains("did not answer 40"), "{said}");
        assert!(said.contains("up to 2000 a second") && said.contains("rrl-whitelist"), "{said}");
    }

    #[test]
    fn no_limit_is_no_caveat() {
        let free = burst(120);
        assert!(!free.is_limited() && free.whole == 120, "{free}");
        let some_lost = Burst { asked: 100, whole: 95, truncated: 0 };
        assert!(!some_lost.is_limited() && Burst { whole: 94, ..some_lost }.is_limited());
        assert!(Burst { whole: 99, truncated: 1, ..some_lost }.is_limited());
    }
}
