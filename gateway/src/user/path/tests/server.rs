//! A DNS server on the loopback interface. It answers a query for `s<N>.c<ID>` with N bytes; over
//! UDP with TC if that is more than the client accepts. It answers `s<N>.c<ID>` AXFR with N
//! messages of 16000 bytes.

use super::*;

pub(super) const AXFR: u16 = 252;

pub(super) const TXT: u16 = 16;

pub(super) fn query(id: u16, size: usize, kind: u16) -> Vec<u8> {
    let mut message = vec![0; 12];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message[5] = 1;
    for label in [format!("s{size}"), format!("c{id}")] {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// Returns the server's message: `size` bytes with one record of random-like bytes after the
/// question, and an OPT record if the query has one.
pub(super) fn answer(query: &[u8], size: usize, salt: u8, opt: bool) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&byte| byte == 0).expect("the root label") + 5;
    let mut message = query[..end].to_vec();
    (message[2], message[3]) = (0x84, 0);
    message[6..12].copy_from_slice(&[0, 1, 0, 0, 0, u8::from(opt)]);
    message.extend([0xc0, 12, 0, TXT as u8, 0, 1, 0, 0, 0, 60]);
    let data = size.saturating_sub(message.len() + 2).max(1);
    message.extend((data as u16).to_be_bytes());
    let name: usize = query[12..end].iter().map(|&byte| usize::from(byte) * 7).sum();
    message.extend((0..data).map(|i| (i * 31 + name + usize::from(salt)) as u8));
    if opt {
        message.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
    message
}

/// Returns the server's answer to a query over TCP.
pub(super) fn tcp_answers(query: &[u8]) -> Vec<u8> {
    let (size, kind, opt) = parts(query);
    let messages: Vec<_> = match kind {
        AXFR => (0..size).map(|n| answer(query, 16_000, n as u8, opt)).collect(),
        _ => vec![answer(query, size, 0, opt)],
    };
    messages
        .iter()
        .flat_map(|message| {
            (message.len() as u16).to_be_bytes().into_iter().chain(message.iter().copied())
        })
        .collect()
}

pub(super) fn parts(query: &[u8]) -> (usize, u16, bool) {
    let length = usize::from(query[12]);
    let label = std::str::from_utf8(&query[14..13 + length]).expect("digits");
    let kind_at = 12 + query[12..].iter().position(|&byte| byte == 0).expect("the root label") + 1;
    let kind = u16::from_be_bytes([query[kind_at], query[kind_at + 1]]);
    (label.parse().expect("a size"), kind, query[11] == 1)
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// The accepted TCP connections.
    pub(super) accepted: Arc<AtomicU32>,
}

impl Server {
    pub(super) fn start(address: &str) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind(address).expect("a port");
            let own = udp.local_addr().expect("bound");
            if let Ok(tcp) = TcpListener::bind(own) {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().expect("bound");
        let accepted = Arc::new(AtomicU32::new(0));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                let query = &buffer[..length];
                let (size, _, opt) = parts(query);
                let most = usize::from(u16::from_be_bytes([query[length - 8], query[length - 7]]));
                let mut message = answer(query, size, 0, opt);
                if opt && message.len() > most {
                    message = answer(query, 0, 0, true);
                    message[2] |= 2;
                }
                let _ = udp.send_to(&message, from);
            }
        });
        let count = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || serve(stream));
            }
        });
        Self { address, accepted }
    }
}

pub(super) fn serve(mut stream: TcpStream) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        if stream.read_exact(&mut query).is_err() || stream.write_all(&tcp_answers(&query)).is_err()
        {
            return;
        }
    }
}
