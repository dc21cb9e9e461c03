//! DNS messages (RFC 1035, section 4) with EDNS (RFC 6891) and its padding option (RFC 7830).
//!
//! [`Message`] holds what narrows looks at: the header, at most one question (RFC 9619 allows no
//! more), the records of the answer and authority sections, and EDNS. Records of unknown types keep
//! only their type. Other records of the additional section, and other EDNS options, are omitted.
//! Such a message can be read, but not written as it was.

use core::fmt;
use std::net::Ipv4Addr;

use domain::base::iana::{Class, Opcode, OptRcode, Rcode, Rtype};
use domain::base::message_builder::{
    AdditionalBuilder, MessageBuilder, PushError, RecordSectionBuilder,
};
use domain::base::name::ToName;
use domain::base::wire::Composer;
use domain::base::{self, ParsedRecord, RecordSection, Serial, StaticCompressor, Ttl};
use domain::rdata;

/// A domain name, uncompressed; parse it from text with [`str::parse`].
pub type Name = base::Name<Vec<u8>>;

/// A DNS message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The number that tells replies to different queries apart.
    pub id: u16,
    /// Whether it is a reply (QR). Otherwise it is a query.
    pub reply: bool,
    /// The kind of query; 0 is a standard one.
    pub opcode: u8,
    /// Whether the answer comes from an authority for the name (AA).
    pub authoritative: bool,
    /// Whether the message was cut short, so that the client should ask again over TCP (TC).
    pub truncated: bool,
    /// Whether recursion is desired (RD).
    pub recursion_desired: bool,
    /// Whether recursion is available (RA).
    pub recursion_available: bool,
    /// The response code; above 15 only with EDNS.
    pub rcode: u16,
    /// The question.
    pub question: Option<Question>,
    /// The answer section.
    pub answers: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// EDNS; `None` if the sender does not use it.
    pub edns: Option<Edns>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: Name,
    /// The type of record, by its number; see [`kind`].
    pub kind: u16,
    /// The class; 1 is the Internet.
    pub class: u16,
}

/// A resource record of the answer or authority section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name that it belongs to.
    pub name: Name,
    /// The class; 1 is the Internet.
    pub class: u16,
    /// How many seconds it may be cached.
    pub ttl: u32,
    /// Type and data.
    pub data: Data,
}

/// A record's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// An IPv4 address (RFC 1035, section 3.4.1).
    A(Ipv4Addr),
    /// Strings of at most 255 bytes each, at least one (RFC 1035, section 3.3.14).
    Txt(Vec<Vec<u8>>),
    /// The start of a zone (RFC 1035, section 3.3.13); its last field is the TTL of negative
    /// answers (RFC 2308).
    Soa(Box<Soa>),
    /// Other data; only the type is kept.
    Other(u16),
}

/// The start of a zone of authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soa {
    /// The primary name server.
    pub mname: Name,
    /// The mailbox of the person responsible.
    pub rname: Name,
    /// The zone's version.
    pub serial: u32,
    /// Seconds between a secondary's refreshes.
    pub refresh: u32,
    /// Seconds until the next attempt after a failed refresh.
    pub retry: u32,
    /// Seconds after which a secondary without a refresh is no longer an authority.
    pub expire: u32,
    /// Seconds for which a negative answer may be cached.
    pub minimum: u32,
}

/// The content of the OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The largest UDP payload that the sender accepts.
    pub udp_payload: u16,
    /// The version, 0.
    pub version: u8,
    /// Whether the sender wants DNSSEC records (DO).
    pub dnssec_ok: bool,
    /// The length of the padding option, without the four octets of its own header.
    pub padding: Option<u16>,
}

/// Numbers of record types.
pub mod kind {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// The start of a zone.
    pub const SOA: u16 = 6;
    /// Text.
    pub const TXT: u16 = 16;
}

/// The Internet class.
pub const CLASS_IN: u16 = 1;

/// The length of a message header in bytes.
pub const HEADER_BYTES: usize = 12;

/// The length of an OPT record without options, in bytes.
pub const OPT_BYTES: usize = 11;

/// The length of an EDNS option's own header in bytes.
pub const OPTION_BYTES: usize = 4;

impl Message {
    /// Reads a message. Bytes after its last record are ignored.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let message = base::Message::from_octets(bytes).map_err(|_| ReadError::Short)?;
        let header = message.header();
        let count = message.header_counts().qdcount();
        if count > 1 {
            return Err(ReadError::Questions(count));
        }
        let mut questions = message.question();
        let question = match questions.next() {
            None => None,
            Some(question) => {
                let question = question.map_err(|_| ReadError::Malformed("question"))?;
                Some(Question {
                    name: question.qname().to_name(),
                    kind: question.qtype().to_int(),
                    class: question.qclass().to_int(),
                })
            }
        };
        let broken = ReadError::Malformed;
        let mut section = questions.answer().map_err(|_| broken("question"))?;
        let answers = records(&mut section, "answer")?;
        let next = section.next_section().map_err(|_| broken("answer"))?;
        let mut section = next.ok_or(broken("authority"))?;
        let authority = records(&mut section, "authority")?;
        let next = section.next_section().map_err(|_| broken("authority"))?;
        let mut edns = None;
        let mut rcode = u16::from(header.rcode().to_int());
        for record in next.ok_or(broken("additional"))? {
            let record = record.map_err(|_| broken("additional"))?;
            if record.rtype() != Rtype::OPT {
                continue;
            }
            if edns.is_some() {
                return Err(ReadError::Opts);
            }
            // RFC 6891, section 6.1.3: extended RCODE, version, DO in place of the TTL.
            let [extended, version, flags, _] = record.ttl().as_secs().to_be_bytes();
            rcode |= u16::from(extended) << 4;
            edns = Some(Edns {
                udp_payload: record.class().to_int(),
                version,
                dnssec_ok: flags & 0x80 != 0,
                padding: padding(&record).ok_or(broken("OPT record"))?,
            });
        }
        Ok(Self {
            id: header.id(),
            reply: header.qr(),
            opcode: header.opcode().to_int(),
            authoritative: header.aa(),
            truncated: header.tc(),
            recursion_desired: header.rd(),
            recursion_available: header.ra(),
            rcode,
            question,
            answers,
            authority,
            edns,
        })
    }

    /// Returns the message's bytes, with compressed names.
    pub fn write(&self) -> Result<Vec<u8>, WriteError> {
        let target = StaticCompressor::new(Vec::with_capacity(512));
        let mut builder = MessageBuilder::from_target(target).map_err(|_| WriteError::TooLong)?;
        let header = builder.header_mut();
        if self.opcode > 0xf {
            return Err(WriteError::Opcode);
        }
        header.set_id(self.id);
        header.set_qr(self.reply);
        header.set_opcode(Opcode::from_int(self.opcode));
        header.set_aa(self.authoritative);
        header.set_tc(self.truncated);
        header.set_rd(self.recursion_desired);
        header.set_ra(self.recursion_available);
        header.set_rcode(Rcode::masked_from_int((self.rcode & 0xf) as u8));
        if self.rcode > 0xfff || (self.rcode > 0xf && self.edns.is_none()) {
            return Err(WriteError::Rcode);
        }

        let mut builder = builder.question();
        if let Some(question) = &self.question {
            let class = Class::from_int(question.class);
            let kind = Rtype::from_int(question.kind);
            builder.push(base::Question::new(&question.name, kind, class))?;
        }
        let mut builder = builder.answer();
        for record in &self.answers {
            record.push(&mut builder)?;
        }
        let mut builder = builder.authority();
        for record in &self.authority {
            record.push(&mut builder)?;
        }
        let mut builder = builder.additional();
        if let Some(edns) = &self.edns {
            edns.push(&mut builder, self.rcode)?;
        }
        let bytes = builder.finish().into_target();
        // The most that TCP's length field (RFC 1035, section 4.2.2) and UDP can carry.
        if bytes.len() > usize::from(u16::MAX) { Err(WriteError::TooLong) } else { Ok(bytes) }
    }
}

impl Record {
    fn push<T: Composer>(
        &self,
        section: &mut impl RecordSectionBuilder<T>,
    ) -> Result<(), WriteError> {
        let class = Class::from_int(self.class);
        let ttl = Ttl::from_secs(self.ttl);
        match &self.data {
            Data::A(address) => section.push((&self.name, class, ttl, rdata::A::new(*address)))?,
            Data::Txt(strings) => {
                let mut octets = Vec::with_capacity(strings.len() * 64);
                for string in strings {
                    octets.push(u8::try_from(string.len()).map_err(|_| WriteError::Text)?);
                    octets.extend_from_slice(string);
                }
                let text = rdata::Txt::from_octets(octets).map_err(|_| WriteError::Text)?;
                section.push((&self.name, class, ttl, text))?;
            }
            Data::Soa(soa) => section.push((
                &self.name,
                class,
                ttl,
                rdata::Soa::new(
                    &soa.mname,
                    &soa.rname,
                    Serial(soa.serial),
                    Ttl::from_secs(soa.refresh),
                    Ttl::from_secs(soa.retry),
                    Ttl::from_secs(soa.expire),
                    Ttl::from_secs(soa.minimum),
                ),
            ))?,
            Data::Other(kind) => return Err(WriteError::OtherType(*kind)),
        }
        Ok(())
    }
}

impl Edns {
    fn push<T: Composer>(
        &self,
        section: &mut AdditionalBuilder<T>,
        rcode: u16,
    ) -> Result<(), WriteError> {
        Ok(section.opt(|opt| {
            opt.set_udp_payload_size(self.udp_payload);
            opt.set_version(self.version);
            opt.set_dnssec_ok(self.dnssec_ok);
            opt.set_rcode(OptRcode::masked_from_int(rcode));
            match self.padding {
                Some(length) => opt.padding(length),
                None => Ok(()),
            }
        })?)
    }
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// They end within the header.
    Short,
    /// There is more than one question (RFC 9619). Carries their number.
    Questions(u16),
    /// There is more than one OPT record (RFC 6891, section 6.1.1).
    Opts,
    /// This part cannot be read.
    Malformed(&'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "the DNS message is shorter than its header"),
            Self::Questions(count) => write!(f, "the DNS message has {count} questions"),
            Self::Opts => write!(f, "the DNS message has more than one OPT record"),
            Self::Malformed(part) => write!(f, "the DNS message is malformed: {part}"),
        }
    }
}

impl core::error::Error for ReadError {}

/// Why a message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// It would have more than 65535 bytes.
    TooLong,
    /// An opcode above 15.
    Opcode,
    /// A response code above 15 without EDNS, or above 4095.
    Rcode,
    /// Text without a string, or with one above 255 bytes.
    Text,
    /// A record has a type whose data we do not know. Carries the type.
    OtherType(u16),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the DNS message has more than 65535 bytes"),
            Self::Opcode => write!(f, "the DNS opcode is above 15"),
            Self::Rcode => write!(f, "the DNS response code does not fit"),
            Self::Text => {
                write!(f, "a TXT record needs strings of at most 255 bytes, at least one")
            }
            Self::OtherType(kind) => write!(f, "a DNS record of type {kind} cannot be written"),
        }
    }
}

impl core::error::Error for WriteError {}

impl From<PushError> for WriteError {
    /// Counts and the buffer only overflow in messages that are too long.
    fn from(_: PushError) -> Self {
        Self::TooLong
    }
}

/// Reads the records of a section. `part` is its name in errors.
fn records(
    section: &mut RecordSection<'_, &[u8]>,
    part: &'static str,
) -> Result<Vec<Record>, ReadError> {
    let broken = ReadError::Malformed(part);
    let mut records = Vec::new();
    for record in section {
        let record = record.map_err(|_| broken)?;
        let data = data(&record).ok_or(broken)?;
        records.push(Record {
            name: record.owner().to_name(),
            class: record.class().to_int(),
            ttl: record.ttl().as_secs(),
            data,
        });
    }
    Ok(records)
}

/// Returns a record's data, or `None` if it is malformed.
fn data(record: &ParsedRecord<'_, &[u8]>) -> Option<Data> {
    Some(match record.rtype() {
        Rtype::A => Data::A(record.to_record::<rdata::A>().ok()??.data().addr()),
        Rtype::TXT => {
            let record = record.to_record::<rdata::Txt<_>>().ok()??;
            let strings: Vec<_> = record.data().iter().map(<[u8]>::to_vec).collect();
            // RFC 1035, section 3.3.14: one or more.
            if strings.is_empty() {
                return None;
            }
            Data::Txt(strings)
        }
        Rtype::SOA => {
            let record = record.to_record::<rdata::Soa<base::ParsedName<_>>>().ok()??;
            let soa = record.data();
            Data::Soa(Box::new(Soa {
                mname: soa.mname().to_name(),
                rname: soa.rname().to_name(),
                serial: soa.serial().into_int(),
                refresh: soa.refresh().as_secs(),
                retry: soa.retry().as_secs(),
                expire: soa.expire().as_secs(),
                minimum: soa.minimum().as_secs(),
            }))
        }
        other => Data::Other(other.to_int()),
    })
}

/// Returns the length of an OPT record's padding option, if it has one. The outer `None` means that
/// the record is malformed.
fn padding(record: &ParsedRecord<'_, &[u8]>) -> Option<Option<u16>> {
    let record = record.to_record::<base::opt::Opt<_>>().ok()??;
    let mut padding = None;
    for option in record.data().iter::<base::opt::UnknownOptData<_>>() {
        let option = option.ok()?;
        if option.code() == base::iana::OptionCode::PADDING {
            padding = Some(u16::try_from(option.as_slice().len()).ok()?);
        }
    }
    Some(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `example.com. A` with DO and a payload size of 1232, laid out by hand from RFC 1035,
    /// section 4.1, and RFC 6891, section 6.1.
    #[rustfmt::skip]
    const QUERY: &[u8] = &[
        0x12, 0x34, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 1,
        7, b'e', b'x', b'a', b'm', b'p', b'l', b'e', 3, b'c', b'o', b'm', 0, 0, 1, 0, 1,
        0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0,
    ];

    #[test]
    fn a_query_with_edns() {
        let message = Message::read(QUERY).expect("a sound message");
        assert_eq!((message.id, message.reply, message.recursion_desired), (0x1234, false, true));
        let question = message.question.expect("a question");
        assert_eq!(question.name.to_string(), "example.com");
        assert_eq!((question.kind, question.class), (kind::A, CLASS_IN));
        let edns = Edns { udp_payload: 1232, version: 0, dnssec_ok: true, padding: None };
        assert_eq!(message.edns, Some(edns));
    }

    #[test]
    fn the_response_code_is_split_over_header_and_opt_record() {
        // BADVERS is 16: 1 in the OPT record's upper bits, 0 in the header.
        let mut bytes = QUERY.to_vec();
        bytes[34] = 1;
        assert_eq!(Message::read(&bytes).map(|message| message.rcode), Ok(16));
    }

    #[test]
    fn messages_that_make_no_sense_are_refused() {
        assert_eq!(Message::read(&QUERY[..11]), Err(ReadError::Short));
        assert_eq!(Message::read(&QUERY[..20]), Err(ReadError::Malformed("question")));
        let mut two = QUERY.to_vec();
        two[5] = 2;
        assert_eq!(Message::read(&two), Err(ReadError::Questions(2)));
        let mut opts = QUERY.to_vec();
        opts[11] = 2;
        opts.extend_from_slice(&QUERY[29..]);
        assert_eq!(Message::read(&opts), Err(ReadError::Opts));
    }

    #[test]
    fn a_pointer_to_itself_is_malformed() {
        let looped = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1];
        assert_eq!(Message::read(&looped), Err(ReadError::Malformed("question")));
    }
}
