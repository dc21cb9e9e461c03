//! TLS 1.3 on a TCP connection: the bytes that its handshake and its records put into the stream.
//!
//! ```text
//!   client                                           server
//!   hello                        ------------>
//!                                <------------       hello, certificate, finished
//!   finished, messages           ------------>
//!                                <------------       tickets, messages
//! ```
//! Source: RFC 8446, 2 (flights), 4 (messages of the handshake), 5 (records), appendix D.4
//! (ChangeCipherSpec); RFC 7685 (padding of the hello); RFC 7301 (ALPN). Captures show how OpenSSL
//! 3 and GnuTLS 3.7 cut flights into records and writes.
//!
//! Differences:
//!
//! - Nothing is encrypted or checked, so nothing fails. Computing takes no time, except a server's
//!   answer to a ClientHello (`service`).
//! - Each message of the handshake has a record of its own, as with OpenSSL.
//! - A client sends ChangeCipherSpec when it has the server's Finished. GnuTLS sends it when it has
//!   ServerHello, which shows if the certificates arrive in two parts.
//! - The client's first key share is the right one (no HelloRetryRequest).
//! - The server accepts every session that is offered, and its early data. A session is good for
//!   one connection (appendix C.4) and never too old.
//! - Keys are never renewed.

mod settings;

use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{MaybeTime, Span};

pub use self::settings::{Client, Server};

/// The TLS state of one connection, shared by both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls {
    client: Client,
    server: Server,
    /// Whether the client has offered a session.
    resumed: bool,
    /// The set of the client's sessions that it may resume, and adds to.
    pub jar: u32,
    /// Whether the client may write: it has the server's Finished.
    pub is_ready: bool,
    /// When the server has computed its answer to the ClientHello.
    pub answers_at: MaybeTime,
}

/// What an end sends before it waits for the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// ClientHello.
    Hello,
    /// ServerHello to Finished.
    Answer,
    /// The client's Finished.
    Finished,
    /// The server's tickets, and their number.
    Tickets(u32),
}

/// Bytes that are written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Their number.
    pub bytes: u32,
    /// The flight that they complete.
    pub ends: Option<Flight>,
}

/// The lengths of a handshake's messages as QUIC carries them: without records (RFC 9001, 4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// ClientHello.
    pub hello: u64,
    /// ServerHello.
    pub server_hello: u64,
    /// EncryptedExtensions to Finished.
    pub answer: u64,
    /// The client's Finished.
    pub finished: u64,
    /// All tickets.
    pub tickets: u64,
    /// Whether the client may send before it has ServerHello.
    pub early_data: bool,
    /// How long the server takes to answer ClientHello.
    pub service: Span,
}

impl Tls {
    /// Creates the state of a connection on which the client offers a session if it has one.
    pub fn new(client: Client, server: Server, has_session: bool) -> Self {
        let resumed = client.resume && has_session;
        Self { client, server, resumed, jar: 0, is_ready: false, answers_at: MaybeTime::NONE }
    }

    /// Sets the client's set of sessions, to which this connection adds.
    pub fn with(self, jar: u32) -> Self {
        Self { jar, ..self }
    }

    /// Returns whether the client has offered a session.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Returns whether the client's first message follows its hello directly.
    pub fn takes_early_data(&self) -> bool {
        self.resumed && self.client.early_data && self.server.early_data
    }

    /// Returns how long an end takes to answer a flight.
    pub fn service(&self, flight: Flight) -> Span {
        match flight {
            Flight::Hello if !self.resumed => self.server.service,
            _ => Span::ZERO,
        }
    }

    /// Returns what the client writes when it opens the connection.
    pub fn open(&self) -> Write {
        // Early data are encrypted, so ChangeCipherSpec precedes them (D.4).
        let before_data = if self.takes_early_data() { CHANGE_CIPHER_SPEC } else { 0 };
        Write { bytes: self.hello() + before_data, ends: Some(Flight::Hello) }
    }

    /// Returns what an end writes when it has the other's flight.
    pub fn answer(&mut self, flight: Flight) -> Vec<Write> {
        match flight {
            Flight::Hello => in_writes(self.server_flight(), self.server.write, Flight::Answer),
            Flight::Answer => {
                self.is_ready = true;
                self.finish()
            }
            Flight::Finished => self.give_tickets(),
            Flight::Tickets(_) => Vec::new(),
        }
    }

    /// Returns the bytes that an end writes before it closes; `None`: none. `side`: 0 for the client,
    /// 1 for the server.
    pub fn goodbye(&self, side: usize) -> Option<u32> {
        let says = if side == 0 { self.client.close_notify } else { self.server.close_notify };
        says.then_some(ALERT)
    }

    fn hello(&self) -> u32 {
        let bytes = self.unpadded_hello();
        let message = bytes - RECORD;
        let pads = self.resumed && self.client.pads_hello && (256..512).contains(&message);
        if pads { RECORD + 512 } else { bytes }
    }

    fn unpadded_hello(&self) -> u32 {
        if !self.resumed {
            return self.client.hello;
        }
        let identity = self.server.ticket.saturating_sub(AROUND_IDENTITY + self.early_extension(8));
        // `pre_shared_key` is the last extension (4.2.11). It has one identity and one binder.
        let psk = 4 + 2 + 2 + identity + 4 + 2 + 1 + self.server.hash;
        self.client.hello + psk + self.early_extension(4)
    }

    /// Returns the lengths of the messages in QUIC. `parameters` are the bytes of the transport
    /// parameters of client and server (RFC 9001, 8.2).
    pub fn messages(&self, parameters: [u64; 2]) -> Messages {
        let [of_client, of_server] = parameters.map(|bytes| 4 + bytes);
        // TLS over TCP adds records, and a session ID for middleboxes (RFC 9001, 8.4).
        let hello = u64::from(self.unpadded_hello() - RECORD - SESSION_ID);
        let [server_hello, extensions, certificate, verify] = self.server_messages();
        let answer = [extensions, certificate, verify, 4 + self.server.hash];
        Messages {
            hello: hello + of_client,
            server_hello: u64::from(server_hello - SESSION_ID),
            answer: answer.into_iter().map(u64::from).sum::<u64>() + of_server,
            finished: u64::from(4 + self.server.hash),
            tickets: u64::from(self.tickets() * (self.server.ticket - PROTECTION)),
            early_data: self.takes_early_data(),
            service: self.service(Flight::Hello),
        }
    }

    /// Returns how many tickets the server gives.
    pub fn tickets(&self) -> u32 {
        if self.resumed { self.server.tickets_resumed } else { self.server.tickets }
    }

    fn server_flight(&self) -> u32 {
        let [server_hello, extensions, certificate, verify] = self.server_messages();
        // A session has already proved who the server is.
        let proof = if self.resumed { 0 } else { sealed(certificate) + sealed(verify) };
        RECORD + server_hello + CHANGE_CIPHER_SPEC + sealed(extensions) + proof + self.finished()
    }

    /// Returns the lengths of ServerHello, EncryptedExtensions, Certificate and CertificateVerify.
    /// The last two are absent if a session is resumed.
    fn server_messages(&self) -> [u32; 4] {
        let Self { client, server, resumed, .. } = self;
        let psk = if *resumed { 6 } else { 0 };
        let server_hello = SERVER_HELLO - RECORD + client.key_share + psk;
        let alpn = if server.alpn && client.alpn > 0 { 4 + 2 + 1 + client.alpn } else { 0 };
        let groups = if client.key_share == X25519 { 0 } else { server.groups };
        let early_data = if self.takes_early_data() { 4 } else { 0 };
        let extensions = 4 + 2 + alpn + groups + early_data;
        let [certificate, verify] =
            if *resumed { [0; 2] } else { [server.certificate, 4 + 2 + 2 + server.signature] };
        [server_hello, extensions, certificate, verify]
    }

    /// Returns the client's second flight.
    fn finish(&self) -> Vec<Write> {
        let last = |bytes| Write { bytes, ends: Some(Flight::Finished) };
        if self.takes_early_data() {
            // EndOfEarlyData (4.5); ChangeCipherSpec was sent long before.
            vec![last(sealed(4) + self.finished())]
        } else if self.client.apart {
            vec![Write { bytes: CHANGE_CIPHER_SPEC, ends: None }, last(self.finished())]
        } else {
            vec![last(CHANGE_CIPHER_SPEC + self.finished())]
        }
    }

    fn give_tickets(&self) -> Vec<Write> {
        let Server { ticket, tickets_apart, .. } = self.server;
        let (writes, each) = match (self.tickets(), tickets_apart) {
            (0, _) => return Vec::new(),
            (count, true) => (count, 1),
            (count, false) => (1, count),
        };
        let write = Write { bytes: each * ticket, ends: Some(Flight::Tickets(each)) };
        vec![write; writes as usize]
    }

    fn finished(&self) -> u32 {
        sealed(4 + self.server.hash)
    }

    /// Returns this many bytes if early data are possible, otherwise zero.
    fn early_extension(&self, bytes: u32) -> u32 {
        if self.takes_early_data() { bytes } else { 0 }
    }
}

/// Returns the length of `bytes` in protected records (5.1, 5.2). Each record has a header, a type
/// and a tag of 16 bytes.
pub const fn sealed(bytes: u32) -> u32 {
    bytes + PROTECTION * bytes.div_ceil(LONGEST_RECORD)
}

fn in_writes(bytes: u32, most: Option<u32>, flight: Flight) -> Vec<Write> {
    let most = most.unwrap_or(bytes).max(1);
    let full = (bytes - 1) / most;
    let mut writes = vec![Write { bytes: most, ends: None }; full as usize];
    writes.push(Write { bytes: bytes - full * most, ends: Some(flight) });
    writes
}

/// The header of a record: type, version, length.
const RECORD: u32 = 5;
/// The bytes that a protected record adds to its content.
const PROTECTION: u32 = RECORD + 1 + 16;
/// The longest record (5.1).
const LONGEST_RECORD: u32 = 1 << 14;
/// A record of one byte (D.4).
const CHANGE_CIPHER_SPEC: u32 = RECORD + 1;
/// Level and description (6).
const ALERT: u32 = sealed(2);
/// Record, header, version, random, session, suite, compression; extensions: version, key share
/// without key (4.1.3, 4.2.1, 4.2.8).
const SERVER_HELLO: u32 = RECORD + 4 + 2 + 32 + 33 + 2 + 1 + 2 + 6 + 8;
/// The session ID in hellos, which TLS 1.3 needs only for middleboxes (D.4).
const SESSION_ID: u32 = 32;
/// The bytes of a public key of the group that servers prefer.
const X25519: u32 = 32;
/// Record, header, lifetime, age, a nonce of eight bytes, lengths of ticket and extensions (4.6.1).
const AROUND_IDENTITY: u32 = PROTECTION + 4 + 4 + 4 + 9 + 2 + 2;

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// kdig 3.2.6 (GnuTLS 3.7), as captured.
    const KDIG: Client = Client {
        hello: 383,
        pads_hello: false,
        key_share: 65,
        alpn: 3,
        apart: true,
        resume: false,
        early_data: false,
        close_notify: true,
    };
    /// OpenSSL 3.0 with its defaults.
    const OPENSSL: Client = Client {
        hello: 225,
        pads_hello: true,
        key_share: 32,
        alpn: 0,
        apart: false,
        resume: true,
        close_notify: false,
        ..KDIG
    };
    /// NSD 4.6 (OpenSSL 3.0), with certificates of 1010 and 1271 bytes and a key of 2048 bits.
    const NSD: Server = Server {
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
        write: None,
        close_notify: true,
        service: Span::ZERO,
    };

    fn bytes(writes: &[Write]) -> Vec<u32> {
        writes.iter().map(|write| write.bytes).collect()
    }

    /// All lengths were captured.
    #[test]
    fn a_whole_handshake_has_the_lengths_of_real_ones() {
        let mut tls = Tls::new(KDIG, NSD, true);
        assert_eq!(tls.open().bytes, 383);
        assert_eq!(bytes(&tls.answer(Flight::Hello)), [160 + 6 + 54 + 2321 + 286 + 74]);
        assert!(!tls.is_ready);
        assert_eq!(bytes(&tls.answer(Flight::Answer)), [6, 74]);
        assert!(tls.is_ready);
        assert_eq!(bytes(&tls.answer(Flight::Finished)), [255, 255]);
        assert_eq!(tls.goodbye(0), Some(24));
    }

    #[test]
    fn a_resumed_handshake_has_the_lengths_of_real_ones() {
        let mut tls = Tls::new(OPENSSL, NSD, true);
        assert_eq!(tls.open().bytes, 517);
        assert_eq!(bytes(&tls.answer(Flight::Hello)), [133 + 6 + 28 + 74]);
        assert_eq!(bytes(&tls.answer(Flight::Answer)), [80]);
        assert_eq!(bytes(&tls.answer(Flight::Finished)), [255]);
        // BIND 9.18: its tickets are longer; its first hello is the same.
        let bind = Server { ticket: 271, tickets_apart: false, alpn: true, ..NSD };
        assert_eq!(Tls::new(OPENSSL, bind, true).open().bytes, 517);
        let mut tls = Tls::new(KDIG, bind, false);
        assert_eq!(bytes(&tls.answer(Flight::Hello)), [160 + 6 + 64 + 2321 + 286 + 74]);
        assert_eq!(bytes(&tls.answer(Flight::Finished)), [542]);
    }

    #[test]
    fn without_a_session_there_is_no_early_data() {
        let (client, server) =
            (Client { early_data: true, ..OPENSSL }, Server { early_data: true, ..NSD });
        assert!(!Tls::new(client, server, false).takes_early_data());
        assert!(!Tls::new(client, NSD, true).takes_early_data());
        assert!(!Tls::new(OPENSSL, server, true).takes_early_data());
        let mut tls = Tls::new(client, server, true);
        assert!(tls.takes_early_data());
        // EndOfEarlyData and Finished (4.5, 4.4.4).
        assert_eq!(bytes(&tls.answer(Flight::Answer)), [26 + 74]);
    }

    /// 5.1: a fragment has at most 2^14 bytes; 5.2: content type and tag.
    #[test]
    fn long_messages_have_several_records() {
        assert_eq!(sealed(2), 24);
        assert_eq!(sealed(130), 152);
        assert_eq!(sealed(16_384), 16_406);
        assert_eq!(sealed(16_385), 16_385 + 44);
    }

    #[test]
    fn flights_are_cut_into_writes() {
        let whole = |most| bytes(&in_writes(4_100, most, Flight::Answer));
        assert_eq!(whole(None), [4_100]);
        assert_eq!(whole(Some(4_096)), [4_096, 4]);
        assert_eq!(whole(Some(2_050)), [2_050, 2_050]);
        let writes = in_writes(4_100, Some(2_050), Flight::Answer);
        assert_eq!([writes[0].ends, writes[1].ends], [None, Some(Flight::Answer)]);
    }

    #[test]
    fn impossible_settings_are_named() {
        assert_eq!((KDIG.check(), NSD.check()), (Ok(()), Ok(())));
        let said = |client: Client| client.check().expect_err("it is impossible").to_string();
        assert_eq!(said(Client { early_data: true, ..KDIG }), "early_data: needs resume");
        assert!(said(Client { hello: 40, ..KDIG }).starts_with("hello: "));
        let said = |server: Server| server.check().expect_err("it is impossible").to_string();
        assert!(said(Server { certificate: 0, ..NSD }).starts_with("certificate: "));
        assert!(said(Server { ticket: 40, ..NSD }).starts_with("ticket: "));
        assert!(said(Server { write: Some(0), ..NSD }).starts_with("write: "));
    }
}
