//! Random values survive writing and reading; random and mutated bytes never make a reader panic.

use narrows_wire::dns::{self, Data, Edns, Message, Name, Question, Record, Soa};
use narrows_wire::tcp::{Flags, Options, SackBlocks};
use narrows_wire::{
    Ethernet, Ipv4, Mac, Packet, Payload, Tcp, Transport, Udp, WriteError, checksums_hold, read,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

const CASES: u32 = 20_000;

#[test]
fn frames_survive() {
    let mut random = Random::new(1);
    for case in 0..CASES {
        let packet = random.packet();
        let mut payload = vec![0; random.below(1600) as usize];
        random.0.fill_bytes(&mut payload);
        let mut frame = Vec::new();
        let written = packet.write(Payload::Bytes(&payload), usize::MAX, &mut frame);
        if let Transport::Tcp(tcp) = packet.transport {
            if tcp.options.bytes() > 40 {
                assert_eq!(written, Err(WriteError::OptionsTooLong(tcp.options.bytes())));
                assert!(frame.is_empty());
                continue;
            }
        }
        assert_eq!(written, Ok(frame.len()));
        assert_eq!(frame.len(), packet.header_bytes() + payload.len());
        let received = read(&frame).expect("our own frame");
        assert_eq!(received.packet, packet, "case {case}");
        assert_eq!(received.payload, payload);
        assert_eq!(usize::from(received.payload_len), payload.len());
        assert_eq!(checksums_hold(&frame), Ok(true));
    }
}

#[test]
fn zeros_need_no_bytes() {
    let mut random = Random::new(2);
    for _ in 0..CASES / 10 {
        let packet = random.packet();
        let length = random.below(1600) as u16;
        let keep = random.below(100) as usize;
        let zeros = vec![0; usize::from(length)];
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        let original = packet.write(Payload::Bytes(&zeros), usize::MAX, &mut whole);
        assert_eq!(packet.write(Payload::Zeros(length), keep, &mut cut), original);
        if let Ok(original) = original {
            assert_eq!(whole.len(), original);
            assert_eq!(cut, whole[..packet.header_bytes() + keep.min(zeros.len())]);
        }
    }
}

#[test]
fn packets_above_65535_bytes_are_refused() {
    let packet = Packet { transport: Transport::Udp(Udp::default()), ..Random::new(3).packet() };
    let mut out = Vec::new();
    assert_eq!(packet.write(Payload::Zeros(65_508), 0, &mut out), Err(WriteError::TooLong(65_536)));
    assert!(out.is_empty());
    assert_eq!(packet.write(Payload::Zeros(65_507), 0, &mut out), Ok(65_549));
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    // RFC 768: zero means that there is no checksum. Of 65536 payloads of two bytes, one sums to
    // zero.
    let packet = Packet { transport: Transport::Udp(Udp::default()), ..Random::new(4).packet() };
    let mut ones = 0;
    for value in 0..=u16::MAX {
        let mut frame = Vec::new();
        let payload = value.to_be_bytes();
        packet.write(Payload::Bytes(&payload), 2, &mut frame).expect("short");
        assert_ne!(frame[40..42], [0, 0]);
        ones += u32::from(frame[40..42] == [0xff, 0xff]);
        assert_eq!(checksums_hold(&frame), Ok(true));
    }
    assert!(ones >= 1);
}

#[test]
fn messages_survive() {
    let mut random = Random::new(5);
    for case in 0..CASES {
        let message = random.message();
        let bytes = message.write().expect("a sound message");
        assert_eq!(Message::read(&bytes).as_ref(), Ok(&message), "case {case}");
    }
}

#[test]
fn random_and_mutated_frames_never_panic() {
    let mut random = Random::new(6);
    let mut read_well = 0;
    for _ in 0..CASES {
        let mut frame = Vec::new();
        if random.below(4) == 0 {
            frame.resize(random.below(120) as usize, 0);
            random.0.fill_bytes(&mut frame);
            if frame.len() > 14 && random.below(2) == 0 {
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            }
        } else {
            let payload = [0; 40];
            let _ = random.packet().write(Payload::Bytes(&payload), 40, &mut frame);
            random.mutate(&mut frame);
        }
        if let Ok(received) = read(&frame) {
            read_well += 1;
            assert!(received.payload.len() <= usize::from(received.payload_len));
            // A message that was read can be written, and is then the same.
            let mut again = Vec::new();
            let payload = Payload::Bytes(received.payload);
            received.packet.write(payload, usize::MAX, &mut again).expect("it was a frame");
            assert_eq!(read(&again).map(|r| r.packet), Ok(received.packet));
        }
        let _ = checksums_hold(&frame);
    }
    assert!(read_well > CASES / 10, "only {read_well} frames got past the checks");
}

#[test]
fn random_and_mutated_messages_never_panic() {
    let mut random = Random::new(7);
    let mut read_well = 0;
    for _ in 0..CASES {
        let mut bytes = random.message().write().expect("a sound message");
        if random.below(4) == 0 {
            random.0.fill_bytes(&mut bytes[4..]);
        } else {
            random.mutate(&mut bytes);
        }
        if let Ok(message) = Message::read(&bytes) {
            read_well += 1;
            let other = |record: &Record| matches!(record.data, Data::Other(_));
            if !message.answers.iter().chain(&message.authority).any(other) {
                let again = message.write().expect("it was a message");
                assert_eq!(Message::read(&again), Ok(message));
            }
        }
    }
    assert!(read_well > CASES / 10, "only {read_well} messages got past the checks");
}

#[test]
fn a_txt_record_without_a_string_is_malformed() {
    // Found by the fuzzer: this was read, but could not be written.
    let header = [0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let record = [0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0];
    let error = Message::read(&[header.as_slice(), &record].concat());
    assert_eq!(error, Err(dns::ReadError::Malformed("answer")));
}

struct Random(Pcg64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    fn below(&mut self, n: u32) -> u32 {
        self.0.next_u32() % n
    }

    fn u16(&mut self) -> u16 {
        self.0.next_u32() as u16
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len() as u32) as usize;
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.u16() as u8),
                2 => bytes[at] ^= 1 << self.below(8),
                _ => bytes[at] = self.u16() as u8,
            }
        }
    }

    fn packet(&mut self) -> Packet {
        let mut mac = || {
            let mut mac = [0; 6];
            self.0.fill_bytes(&mut mac);
            Mac(mac)
        };
        let ethernet = Ethernet { destination: mac(), source: mac() };
        let ip = Ipv4 {
            source: self.0.next_u32().into(),
            destination: self.0.next_u32().into(),
            tos: self.u16() as u8,
            ttl: self.u16() as u8,
            identification: self.u16(),
            dont_fragment: self.coin(),
        };
        let (source_port, destination_port) = (self.u16(), self.u16());
        let transport = if self.coin() {
            Transport::Udp(Udp { source_port, destination_port })
        } else {
            Transport::Tcp(Tcp {
                source_port,
                destination_port,
                seq: self.0.next_u32(),
                ack: self.0.next_u32(),
                flags: Flags(self.u16() as u8),
                window: self.u16(),
                options: self.options(),
            })
        };
        Packet { ethernet, ip, transport }
    }

    fn options(&mut self) -> Options {
        let mut sack = SackBlocks::default();
        for _ in 0..self.below(5) {
            assert!(sack.push(self.0.next_u32(), self.0.next_u32()));
        }
        Options {
            fast_open: None,
            mss: self.coin().then(|| self.u16()),
            window_scale: self.coin().then(|| self.u16() as u8),
            sack_permitted: self.coin(),
            timestamps: self.coin().then(|| (self.0.next_u32(), self.0.next_u32())),
            sack,
            accurate_ecn: None,
        }
    }

    fn name(&mut self) -> Name {
        let labels = self.below(5);
        let mut text = String::from(if labels == 0 { "." } else { "" });
        for _ in 0..labels {
            // Few names, so that compression has something to do.
            text += &"x".repeat(1 + self.below(3) as usize);
            text.push('.');
        }
        text.parse().expect("a short name")
    }

    fn record(&mut self) -> Record {
        let data = match self.below(3) {
            0 => Data::A(self.0.next_u32().into()),
            1 => {
                let strings = 1 + self.below(3);
                Data::Txt((0..strings).map(|_| vec![7; self.below(256) as usize]).collect())
            }
            _ => Data::Soa(Box::new(Soa {
                mname: self.name(),
                rname: self.name(),
                serial: self.0.next_u32(),
                refresh: self.0.next_u32(),
                retry: self.0.next_u32(),
                expire: self.0.next_u32(),
                minimum: self.0.next_u32(),
            })),
        };
        Record { name: self.name(), class: self.u16(), ttl: self.0.next_u32(), data }
    }

    fn message(&mut self) -> Message {
        let edns = self.coin().then(|| Edns {
            udp_payload: self.u16(),
            version: self.u16() as u8,
            dnssec_ok: self.coin(),
            padding: self.coin().then(|| self.below(500) as u16),
        });
        Message {
            id: self.u16(),
            reply: self.coin(),
            opcode: self.below(16) as u8,
            authoritative: self.coin(),
            truncated: self.coin(),
            recursion_desired: self.coin(),
            recursion_available: self.coin(),
            rcode: self.below(if edns.is_some() { 4096 } else { 16 }) as u16,
            question: self.coin().then(|| Question {
                name: self.name(),
                kind: self.u16(),
                class: dns::CLASS_IN,
            }),
            answers: (0..self.below(4)).map(|_| self.record()).collect(),
            authority: (0..self.below(2)).map(|_| self.record()).collect(),
            edns,
        }
    }
}
