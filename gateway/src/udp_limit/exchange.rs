//! A query to a server and its reply, over UDP or TCP.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::{Question, message};

/// Returns the reply over UDP. A lost query is sent once more.
pub(super) fn udp(server: SocketAddr, question: &Question, edns_size: u16) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let query = message::query(question, edns_size);
    let mut reply = vec![0; 65_535];
    for _ in 0..2 {
        // One socket each, so that a late reply to another question is not taken for this one's.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(WAIT))?;
        socket.send(&query)?;
        let end = Instant::now() + WAIT;
        while Instant::now() < end {
            let Ok(length) = socket.recv(&mut reply) else { break };
            if message::is_reply(&reply[..length], &query) {
                reply.truncate(length);
                return Ok(reply);
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Returns the length of the reply over TCP.
pub(super) fn tcp(server: SocketAddr, question: &Question, edns_size: u16) -> io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&server, WAIT)?;
    stream.set_read_timeout(Some(WAIT * 2))?;
    let query = message::query(question, edns_size);
    stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut reply)?;
    let whole = message::is_reply(&reply, &query) && reply[3] & 15 == 0;
    if whole { Ok(reply.len()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// How long the server may take: it is on this machine, or near.
const WAIT: Duration = Duration::from_millis(500);
