//! Servers on loopback whose answers each test chooses.
#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// Returns the reply to a query: the query with QR set, and `more` bytes after its last record.
pub fn reply(query: &[u8], more: usize) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply.resize(reply.len() + more, 0);
    reply
}

/// Starts a TCP server that passes each connection, one after the other, to `serve`.
pub fn tcp(mut serve: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            connection.set_nodelay(true).expect("set");
            serve(connection);
        }
    });
    address
}

/// Starts a UDP server that answers each query with the datagrams that `answers` returns.
pub fn udp(mut answers: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            for answer in answers(&buffer[..length]) {
                socket.send_to(&answer, peer).expect("sent");
            }
        }
    });
    address
}

/// Returns the next query of a connection, or `None` at its end.
pub fn next_query(connection: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    connection.read_exact(&mut length).ok()?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    connection.read_exact(&mut query).ok()?;
    Some(query)
}

/// Returns a message with its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("short enough");
    [&length.to_be_bytes()[..], message].concat()
}

/// Writes these pieces with a pause between them.
pub fn write_pieces(connection: &mut TcpStream, pieces: &[&[u8]], pause: Duration) {
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            thread::sleep(pause);
        }
        connection.write_all(piece).expect("written");
    }
}
