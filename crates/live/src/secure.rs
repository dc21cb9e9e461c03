//! TLS 1.3 (RFC 8446) as rustls speaks it, on the stream of a connection.
//!
//! Nobody checks certificates (RFC 7858, 4.1: opportunistic privacy). Flights have the lengths of
//! the plan, and are written as it says (pair.rs).

mod pair;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, OnceLock};

use narrows_transport::tls::{self, Flight, Tls};
use narrows_units::Span;
use rustls::{ClientConnection, Connection, Error, ServerConnection};

use self::pair::PairConfigs;
pub(crate) use self::pair::{Alone, Carrier, Pair, Sessions, name};

/// The TLS of one end of a connection.
#[derive(Debug)]
pub(crate) struct Secure {
    tls: Connection,
    /// The lengths of its flights.
    lengths: Tls,
    close_notify: bool,
    /// Whether a client's data leave with its ClientHello (2.3).
    takes_early_data: bool,
    /// The bytes of messages that a server has written, or a client has read.
    messages: u64,
    filling: Arc<Filling>,
    /// The bytes of the filling that a client has read.
    filled: u64,
    /// Whether the handshake is complete at this end.
    pub(crate) is_ready: bool,
    /// What it becomes if the client, which is elsewhere, offers a session: then its ClientHello has
    /// another length.
    resuming: Option<Box<Secure>>,
}

/// Data without a meaning that follow a server's tickets, because these are shorter than the plan's.
#[derive(Debug)]
struct Filling {
    bytes: u64,
    /// The bytes of messages before them, once they are written.
    after: OnceLock<u64>,
}

/// The result of bytes that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The bytes of messages among them, decrypted.
    pub(crate) plain: Vec<u8>,
    /// What this end answers, write by write.
    pub(crate) writes: Vec<Vec<u8>>,
    /// How long it takes until it writes that.
    pub(crate) service: Span,
    /// Whether a flight of the handshake is complete.
    pub(crate) flight: bool,
    /// Whether these bytes have completed the handshake.
    pub(crate) opened: bool,
}

/// What applications have in common for their connections.
#[derive(Debug, Default)]
pub(crate) struct Configs {
    /// By application and port; without a port, those of its other ports.
    servers: HashMap<(u32, Option<u16>), tls::Server>,
    /// By client and server.
    pairs: HashMap<[u32; 2], Pair>,
    /// Clients of real servers, by client and server.
    alone: HashMap<[u32; 2], Alone>,
    /// By client, server, and the client's number for a set of sessions.
    sessions: HashMap<([u32; 2], u32), Arc<Sessions>>,
}

impl Configs {
    /// Lets an application serve TLS, at this port or at all others.
    pub(crate) fn serve(&mut self, application: u32, port: Option<u16>, server: tls::Server) {
        self.servers.insert((application, port), server);
    }

    /// Returns how an application serves TLS at most of its ports.
    pub(crate) fn server(&self, application: u32) -> Option<&tls::Server> {
        self.servers.get(&(application, None))
    }

    /// Creates both ends of a connection between two applications. `None`: the server has no TLS.
    pub(crate) fn open(
        &mut self,
        applications: [u32; 2],
        port: u16,
        jar: u32,
        client: tls::Client,
    ) -> Option<[Secure; 2]> {
        let sessions = self.sessions.entry((applications, jar)).or_default().clone();
        let pair = self.pair(applications, port, client)?;
        let begun = pair.begin(&sessions);
        let filling = Filling::new(&begun);
        let one = ClientConnection::new(begun.client.clone(), name()).ok()?;
        let close_notify = pair.settings.1.close_notify;
        let other = Secure::server(&begun, close_notify, filling.clone())?;
        Some([Secure::client(one, begun.tls, client, filling), other])
    }

    /// Creates the client's end of a connection to a server elsewhere.
    pub(crate) fn open_elsewhere(
        &mut self,
        applications: [u32; 2],
        port: u16,
        jar: u32,
        client: tls::Client,
    ) -> Option<Secure> {
        let sessions = self.sessions.entry((applications, jar)).or_default().clone();
        let begun = self.pair(applications, port, client)?.begin(&sessions);
        let filling = Filling::new(&begun);
        // Without early data, nothing comes before the tickets.
        let _ = filling.after.set(0);
        let one = ClientConnection::new(begun.client, name()).ok()?;
        Some(Secure::client(one, begun.tls, client, filling))
    }

    /// Creates the server's end of a connection that a client elsewhere has opened.
    pub(crate) fn accept_elsewhere(
        &mut self,
        applications: [u32; 2],
        port: u16,
        client: tls::Client,
    ) -> Option<Secure> {
        let pair = self.pair(applications, port, client)?;
        let close_notify = pair.settings.1.close_notify;
        let end = |has_session| {
            let begun = pair.begin_with(&Arc::default(), has_session);
            Secure::server(&begun, close_notify, Filling::new(&begun))
        };
        Some(Secure { resuming: Some(Box::new(end(true)?)), ..end(false)? })
    }

    fn pair(&mut self, applications: [u32; 2], port: u16, client: tls::Client) -> Option<&Pair> {
        let at_port = self.servers.get(&(applications[1], Some(port)));
        let server = *at_port.or_else(|| self.servers.get(&(applications[1], None)))?;
        let known = self.pairs.get(&applications);
        if known.is_none_or(|pair| pair.settings != (client, server)) {
            let pair = Pair::new(client, server, Carrier::Tcp).ok()?;
            self.pairs.insert(applications, pair);
        }
        self.pairs.get(&applications)
    }

    /// Creates the client's end of a connection to a real server. `None`: the plan's server has no
    /// TLS.
    pub(crate) fn open_alone(
        &mut self,
        applications: [u32; 2],
        jar: u32,
        client: tls::Client,
    ) -> Option<Secure> {
        let server = *self.server(applications[1])?;
        let alone = match self.alone.entry(applications) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(Alone::new(client, server).ok()?),
        };
        let (config, lengths) = alone.begin(self.sessions.entry((applications, jar)).or_default());
        let one = ClientConnection::new(config, name()).ok()?;
        let none = Arc::new(Filling { bytes: 0, after: OnceLock::new() });
        Some(Secure::client(one, lengths, client, none))
    }
}

impl Filling {
    fn new(begun: &PairConfigs) -> Arc<Self> {
        Arc::new(Self { bytes: begun.filling[0].into(), after: OnceLock::new() })
    }
}

impl Secure {
    fn new(tls: Connection, lengths: Tls, filling: Arc<Filling>) -> Self {
        Self {
            tls,
            lengths,
            close_notify: false,
            takes_early_data: false,
            messages: 0,
            filling,
            filled: 0,
            is_ready: false,
            resuming: None,
        }
    }

    fn server(begun: &PairConfigs, close_notify: bool, filling: Arc<Filling>) -> Option<Self> {
        let tls = Connection::Server(ServerConnection::new(begun.server.clone()).ok()?);
        Some(Self { close_notify, ..Self::new(tls, begun.tls, filling) })
    }

    fn client(
        mut tls: ClientConnection,
        lengths: Tls,
        settings: tls::Client,
        filling: Arc<Filling>,
    ) -> Self {
        let takes_early_data = tls.early_data().is_some();
        Self {
            close_notify: settings.close_notify,
            takes_early_data,
            ..Self::new(Connection::Client(tls), lengths, filling)
        }
    }

    /// Returns a client's ClientHello.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        self.pending()
    }

    /// Returns whether what a client writes now leaves with its ClientHello.
    pub(crate) fn takes_early_data(&self) -> bool {
        self.takes_early_data && !self.is_ready
    }

    /// Takes bytes that have arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if rustls does not understand them, or if its answer does not have the
    /// plan's length.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Taken, Error> {
        let length = bytes.get(3..5).map(|length| [length[0], length[1]]);
        if let (Some(resuming), Some(length)) = (self.resuming.take(), length)
            && u32::from(u16::from_be_bytes(length)) + RECORD != self.lengths.open().bytes
        {
            *self = *resuming;
        }
        let mut taken = Taken::default();
        while !bytes.is_empty() {
            let read = self.tls.read_tls(&mut bytes);
            let Ok(1..) = read else { break };
            let state = self.tls.process_new_packets()?;
            if let Connection::Server(server) = &mut self.tls
                && let Some(mut early) = server.early_data()
            {
                // The reader ends where the data that have arrived end.
                let _ = io::copy(&mut early, &mut taken.plain);
            }
            let before = taken.plain.len();
            taken.plain.resize(before + state.plaintext_bytes_to_read(), 0);
            if self.tls.reader().read_exact(&mut taken.plain[before..]).is_err() {
                taken.plain.truncate(before);
            }
        }
        let was_ready = std::mem::replace(&mut self.is_ready, !self.tls.is_handshaking());
        taken.opened = self.is_ready && !was_ready;
        // A client's ChangeCipherSpec waits for the rest of the server's flight.
        let waits = matches!(self.tls, Connection::Client(_)) && !self.is_ready;
        let mut answer = if waits { Vec::new() } else { self.pending() };
        taken.flight = !was_ready && (taken.opened || !answer.is_empty());
        let mut flight = if taken.opened { Flight::Answer } else { Flight::Hello };
        match &self.tls {
            Connection::Client(_) => self.leave_out_filling(&mut taken.plain),
            Connection::Server(_) if taken.opened => {
                answer.extend(self.fill());
                flight = Flight::Finished;
            }
            Connection::Server(_) => {}
        }
        if taken.flight {
            taken.writes = self.cut(answer, flight)?;
            taken.service = self.lengths.service(flight);
        } else if !answer.is_empty() {
            taken.writes.push(answer);
        }
        Ok(taken)
    }

    /// Cuts the answer to a flight into writes.
    fn cut(&mut self, mut answer: Vec<u8>, flight: Flight) -> Result<Vec<Vec<u8>>, Error> {
        let plan = self.lengths.answer(flight);
        let asked = plan.iter().map(|write| write.bytes as usize).sum::<usize>();
        if answer.len() != asked {
            return Err(Error::General(format!("{} B instead of {asked} B", answer.len())));
        }
        let write = |write: tls::Write| {
            let rest = answer.split_off(write.bytes as usize);
            std::mem::replace(&mut answer, rest)
        };
        Ok(plan.into_iter().map(write).collect())
    }

    /// Returns the data that follow a server's tickets.
    fn fill(&mut self) -> Vec<u8> {
        let _ = self.filling.after.set(self.messages);
        self.tls.set_buffer_limit(None);
        // Its buffer has no limit, so nothing fails.
        let _ = self.tls.writer().write_all(&vec![0; self.filling.bytes as usize]);
        self.pending()
    }

    /// Leaves the filling out of what a client has read.
    fn leave_out_filling(&mut self, plain: &mut Vec<u8>) {
        if let Some(&after) = self.filling.after.get() {
            let before = (after.saturating_sub(self.messages) as usize).min(plain.len());
            let left = (self.filling.bytes - self.filled) as usize;
            let filled = left.min(plain.len() - before);
            plain.drain(before..before + filled);
            self.filled += filled as u64;
        }
        self.messages += plain.len() as u64;
    }

    /// Returns the records that carry these bytes.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.tls.set_buffer_limit(None);
        let mut early = 0;
        if self.takes_early_data()
            && let Connection::Client(client) = &mut self.tls
            && let Some(mut data) = client.early_data()
        {
            early = data.write(bytes).unwrap_or(0);
        }
        if let Connection::Server(_) = self.tls {
            self.messages += bytes.len() as u64;
        }
        // Its buffer has no limit, so nothing fails.
        let _ = self.tls.writer().write_all(&bytes[early..]);
        self.pending()
    }

    /// Returns what this end says before it closes (6.1).
    pub(crate) fn goodbye(&mut self) -> Vec<u8> {
        if !std::mem::take(&mut self.close_notify) || !self.is_ready {
            return Vec::new();
        }
        self.tls.send_close_notify();
        self.pending()
    }

    fn pending(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut all).is_err() {
                break;
            }
        }
        all
    }
}

/// The header of a record: type, version, length (5.1).
const RECORD: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// kdig 3.2.6 and NSD 4.6, as captured (`narrows_transport::tls`).
    const KDIG: tls::Client = tls::Client {
        hello: 383,
        pads_hello: false,
        key_share: 65,
        alpn: 3,
        apart: true,
        resume: false,
        early_data: false,
        close_notify: true,
    };
    const NSD: tls::Server = tls::Server {
        certificate: 4 + 1 + 3 + (3 + 1010 + 2) + (3 + 1271 + 2),
        signature: 256,
        hash: 48,
        groups: 26,
        alpn: false,
        ticket: 255,
        tickets: 2,
        tickets_resumed: 1,
        tickets_apart: true,
        early_data: false,
        write: Some(2048),
        close_notify: true,
        service: Span::ZERO,
    };

    fn resuming() -> tls::Client {
        tls::Client { resume: true, close_notify: true, ..tls::Client::default() }
    }

    fn opened(client: tls::Client, server: tls::Server) -> Configs {
        if let Err(why) = Pair::new(client, server, Carrier::Tcp) {
            panic!("{why}");
        }
        let mut configs = Configs::default();
        configs.serve(1, None, server);
        configs
    }

    /// Compares the writes of a connection with the plan's.
    #[track_caller]
    fn compare(configs: &mut Configs, client: tls::Client, has_session: bool) {
        let server = *configs.server(1).expect("it serves");
        let mut plan = Tls::new(client, server, has_session);
        let mut expected = |flight| -> Vec<usize> {
            plan.answer(flight).iter().map(|write| write.bytes as usize).collect()
        };
        let lengths = |writes: &[Vec<u8>]| writes.iter().map(Vec::len).collect::<Vec<_>>();
        let [mut one, mut other] = configs.open([0, 1], 853, 0, client).expect("it serves TLS");
        let hello = one.hello();
        assert_eq!(hello.len() as u32, one.lengths.open().bytes);
        let early = one.takes_early_data();
        assert_eq!(early, one.lengths.takes_early_data());
        let data = if early { one.give(&[7; 300]) } else { Vec::new() };
        assert_eq!(data.len(), if early { 322 } else { 0 });
        let flight = other.take(&[hello, data].concat()).expect("a ClientHello");
        assert_eq!(flight.plain.len(), if early { 300 } else { 0 });
        assert!(flight.flight && !flight.opened);
        assert_eq!(lengths(&flight.writes), expected(Flight::Hello));
        let half_way = if early { other.give(&[7; 1000]) } else { Vec::new() };
        let arrived = [flight.writes.concat(), half_way].concat();
        // Its parts do not end where records end.
        let (first, rest) = arrived.split_at(200);
        assert!(!one.take(first).expect("a part of the flight").flight);
        let finished = one.take(rest).expect("the rest of the flight");
        assert!(finished.opened && one.is_ready);
        assert_eq!(finished.plain.len(), if early { 1000 } else { 0 });
        assert_eq!(lengths(&finished.writes), expected(Flight::Answer));
        let tickets = other.take(&finished.writes.concat()).expect("Finished");
        assert!(tickets.opened && other.is_ready);
        assert_eq!(lengths(&tickets.writes), expected(Flight::Finished));
        let arrived = [tickets.writes.concat(), other.give(&[7; 5000])].concat();
        let read = arrived.chunks(1000).map(|part| one.take(part).expect("records").plain);
        assert_eq!(read.collect::<Vec<_>>().concat(), [7; 5000]);
        assert_eq!(other.take(&one.give(&[7; 40])).expect("a record").plain, [7; 40]);
        assert_eq!(other.give(&[7; 100_000]).len(), 100_000 + 7 * 22);
        assert_eq!(one.goodbye().len(), if client.close_notify { 24 } else { 0 });
        assert!(one.goodbye().is_empty());
        assert_eq!(other.goodbye().len(), if server.close_notify { 24 } else { 0 });
    }

    #[test]
    fn handshakes_have_the_lengths_of_the_plan() {
        let openssl = tls::Server::default();
        let early = tls::Client { early_data: true, ..resuming() };
        let serves_early = tls::Server { early_data: true, ..openssl };
        for (client, server) in [
            (resuming(), openssl),
            (tls::Client { alpn: 2, hello: 234, ..resuming() }, openssl),
            (resuming(), NSD),
            (KDIG, NSD),
            (KDIG, openssl),
            (tls::Client { resume: true, key_share: 97, ..KDIG }, openssl),
            (early, openssl),
            (early, serves_early),
            (early, tls::Server { tickets: 3, tickets_resumed: 0, ..serves_early }),
            (resuming(), tls::Server { hash: 32, certificate: 40_000, ..openssl }),
            (resuming(), tls::Server { ticket: 16_000, tickets: 100, ..openssl }),
            (tls::Client { hello: 1800, ..resuming() }, openssl),
        ] {
            let mut configs = opened(client, server);
            compare(&mut configs, client, false);
            // Sessions that earlier connections have left are used up.
            let mut left = server.tickets;
            for _ in 0..4 {
                compare(&mut configs, client, left > 0);
                let resumes = client.resume && left > 0;
                left =
                    if resumes { left - 1 + server.tickets_resumed } else { left + server.tickets };
            }
        }
    }

    /// OpenSSL's servers read the names of authorities (X.501), and refuse those that are none.
    #[test]
    fn a_client_alone_says_as_much_as_the_plan() {
        let server = tls::Server::default();
        for client in [resuming(), KDIG, tls::Client { hello: 700, ..KDIG }] {
            let mut configs = Configs::default();
            configs.serve(1, None, server);
            let mut alone = configs.open_alone([0, 1], 0, client).expect("it serves TLS");
            let hello = alone.hello();
            assert_eq!(hello.len() as u32, client.hello);
            let common_name = [0x06, 3, 0x55, 4, 3];
            assert!(hello.windows(5).any(|bytes| bytes == common_name));
            // Garbage, and the reply of something that is no TLS.
            for garbage in [&[0; 600][..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
                let mut alone = configs.open_alone([0, 1], 0, client).expect("it serves TLS");
                alone.hello();
                alone.take(garbage).expect_err("it is no TLS");
            }
        }
        let short = tls::Client { hello: 100, ..resuming() };
        let why = Alone::new(short, server).expect_err("it has no room");
        assert!(why.starts_with("hello: 100 B, but rustls needs "), "{why}");
    }

    #[test]
    fn settings_that_rustls_cannot_follow_are_named() {
        let openssl = tls::Server::default();
        let says = |client: tls::Client, server: tls::Server| {
            Pair::new(client, server, Carrier::Tcp).expect_err("it is refused")
        };
        let hello = |hello| tls::Client { hello, ..resuming() };
        assert_eq!(says(hello(200), openssl), "hello: 200 B, but rustls needs 206 B");
        opened(hello(206), openssl);
        let certificate = |certificate| tls::Server { certificate, ..openssl };
        assert_eq!(
            says(resuming(), certificate(100)),
            "certificate: 100 B, but rustls needs 148 B"
        );
        opened(resuming(), certificate(148));
        let why = says(resuming(), certificate(148 + 207 - 186));
        assert_eq!(why, "certificate: none is this long; 170 B are possible");
        for (early_data, tickets, least) in [(false, 2, 126), (true, 2, 134), (true, 1, 134)] {
            let ticket = |ticket| tls::Server { ticket, tickets, early_data, ..openssl };
            let why = says(resuming(), ticket(80));
            assert_eq!(why, format!("ticket: 80 B, but rustls needs {least} B"));
            opened(tls::Client { hello: 300, ..resuming() }, ticket(least));
        }
        let why = says(tls::Client { key_share: 1216, ..resuming() }, openssl);
        assert!(why.starts_with("key_share: 1216 B"), "{why}");
        let why = says(KDIG, tls::Server { groups: 300, ..openssl });
        assert!(why.starts_with("groups: 300 B"), "{why}");
        let why = says(resuming(), tls::Server { hash: 64, ..openssl });
        assert!(why.starts_with("hash: 64 B"), "{why}");
    }
}
