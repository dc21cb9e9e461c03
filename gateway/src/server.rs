//! Examines the DNS server: whether it answers over UDP and listens on TCP.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::user::proxied::{self, Transport};

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// The address does not belong to this machine.
    NotHere {
        /// The address.
        address: IpAddr,
        /// The addresses that do, except loopback addresses.
        here: Vec<IpAddr>,
    },
    /// No answer to a DNS query over UDP.
    Silent {
        /// Where.
        server: SocketAddr,
        /// The system's message, if there was an error.
        why: String,
        /// The query had a PROXY protocol header.
        proxied: bool,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere { address, here } => {
                let here: Vec<String> = here.iter().map(ToString::to_string).collect();
                let hint = if here.is_empty() {
                    "it has none".into()
                } else {
                    format!("it has {}", here.join(", "))
                };
                write!(f, "server: {address} is not an address of this machine; hint: {hint}")
            }
            Self::Silent { server, why, proxied: false } => write!(
                f,
                "server: {server} does not answer a DNS query over UDP{why}; hint: is the server running, and listening there?"
            ),
            Self::Silent { server, why, proxied: true } => write!(
                f,
                "server: {server} does not answer a DNS query behind a header of the PROXY protocol over UDP{why}; hint: is the \
                 server running, and set to take that there? otherwise leave out user.proxy_protocol"
            ),
        }
    }
}

impl std::error::Error for ServerError {}

/// Asks a server for [`CHECK_NAME`] over UDP, repeatedly, until `wait` is over. Any reply to the
/// query will do, even a refusal.
///
/// # Errors
///
/// Returns [`ServerError::Silent`] if no reply came in time.
pub fn answers(server: SocketAddr, wait: Duration) -> Result<(), ServerError> {
    answers_with(server, wait, None)
}

/// Asks a server as [`answers`] does. `proxied` can ask for a PROXY protocol header before the
/// query, which names this machine as the client.
///
/// # Errors
///
/// Returns [`ServerError::Silent`] if no reply came in time.
pub fn answers_with(
    server: SocketAddr,
    wait: Duration,
    proxied: Option<Transport>,
) -> Result<(), ServerError> {
    let end = Instant::now() + wait;
    let mut why = String::new();
    let mut id = std::process::id() as u16;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let started = Instant::now();
        id = id.wrapping_add(1);
        match ask(
            server,
            id,
            proxied,
            left.min(Duration::from_secs(1)).max(Duration::from_millis(50)),
        ) {
            Ok(()) => return Ok(()),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => {
                let text = error.to_string().to_lowercase();
                why = format!(" ({})", text.split(" (os error").next().unwrap_or(&text));
                // It was refused at once: the server may be starting.
                std::thread::sleep(
                    Duration::from_millis(100).saturating_sub(started.elapsed()).min(left),
                );
            }
        }
        if Instant::now() >= end {
            return Err(ServerError::Silent { server, why, proxied: proxied.is_some() });
        }
    }
}

/// Returns whether something listens on TCP at this address. What the kernel takes over goes there.
pub fn listens(server: SocketAddr) -> bool {
    TcpStream::connect_timeout(&server, Duration::from_secs(1)).is_ok()
}

fn ask(server: SocketAddr, id: u16, proxied: Option<Transport>, wait: Duration) -> io::Result<()> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(wait))?;
    let query = query(id);
    let here = socket.local_addr()?;
    let header = proxied.map(|transport| proxied::header(transport, here, server));
    socket.send(&[header.as_deref().unwrap_or_default(), &query].concat())?;
    let end = Instant::now() + wait;
    let mut reply = [0; 4096];
    loop {
        let length = socket.recv(&mut reply)?;
        // QR set, the same ID: RFC 1035 (4.1.1).
        if length >= 12 && reply[..2] == query[..2] && reply[2] & 0x80 != 0 {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// The name that all queries of the gateway's own ask for, so that the server's log tells them apart.
/// Nobody has it (RFC 6761, 6.4).
pub const CHECK_NAME: &str = "narrows-gateway-check.invalid";

/// `narrows-gateway-check.invalid. A IN`, without recursion: RFC 1035 (4.1).
pub fn query(id: u16) -> Vec<u8> {
    let mut query = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query[..2].copy_from_slice(&id.to_be_bytes());
    for label in CHECK_NAME.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_replies_answers() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = server.local_addr().expect("bound");
        let thread = std::thread::spawn(move || {
            let mut query = [0; 512];
            let (length, from) = server.recv_from(&mut query).expect("the query");
            assert_eq!(query[12..length], *b"\x15narrows-gateway-check\x07invalid\0\0\x01\0\x01");
            // First something that is not its reply.
            server.send_to(&[0; 12], from).expect("sent");
            query[2] |= 0x80;
            query[3] |= 5; // REFUSED
            server.send_to(&query[..length], from).expect("sent");
        });
        assert_eq!(answers(address, Duration::from_secs(5)), Ok(()));
        thread.join().expect("the server");
    }

    #[test]
    fn silence_is_an_error_that_names_the_server() {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = silent.local_addr().expect("bound");
        let error = answers(address, Duration::from_millis(120)).expect_err("it does not reply");
        assert!(
            error.to_string().starts_with(&format!("server: {address} does not answer")),
            "{error}"
        );
        drop(silent);
        let error = answers(address, Duration::from_millis(120)).expect_err("nothing is there");
        assert!(error.to_string().contains("connection refused"), "{error}");
    }
}
