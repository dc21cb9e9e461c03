//! dnstap messages that lack a time, in the fields of dnstap.proto (dnstap/dnstap.pb, 2016).

use narrows_intake::Column;
use narrows_intake::capture::{Exchange, Remark, Watched};

const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
const ANSWER: &[u8] = b"\x12\x34\x84\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
const AUTH_QUERY: u8 = 1;
const CLIENT_QUERY: u8 = 5;
const CLIENT_RESPONSE: u8 = 6;

/// A message of this type, over UDP, with its times in seconds.
fn message(kind: u8, asked: Option<u8>, answered: Option<u8>) -> Vec<u8> {
    with(kind, asked, answered, &[])
}

/// A message like that of [`message`], with more fields.
fn with(kind: u8, asked: Option<u8>, answered: Option<u8>, more: &[u8]) -> Vec<u8> {
    let mut fields = [&[1 << 3, kind, 3 << 3, 1], more].concat();
    if let Some(seconds) = asked {
        fields.extend([8 << 3, seconds]);
    }
    if let Some(seconds) = answered {
        fields.extend([12 << 3, seconds]);
    }
    let (field, bytes) = if kind % 2 == 1 { (10, QUESTION) } else { (14, ANSWER) };
    fields.extend([field << 3 | 2, bytes.len() as u8]);
    fields.extend(bytes);
    [vec![14 << 3 | 2, fields.len() as u8], fields].concat()
}

fn rows(messages: &[Vec<u8>]) -> Vec<Exchange> {
    let mut reader = opened(messages);
    let mut found = Vec::new();
    while let Some(chunk) = reader.next_chunk(16) {
        found.extend(chunk.exchanges().to_vec());
    }
    assert_eq!(reader.notes()[0].skipped.total(), 0);
    found
}

fn opened(messages: &[Vec<u8>]) -> Watched<std::io::Cursor<Vec<u8>>> {
    // A START frame without content. Frame Streams: fstrm/control.h.
    let mut file = vec![0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 2];
    for message in messages {
        file.extend((message.len() as u32).to_be_bytes());
        file.extend(message);
    }
    Watched::open(std::io::Cursor::new(file), &[53]).expect("it begins as dnstap")
}

#[test]
fn a_server_is_an_address_and_a_port_unless_nobody_says_it() {
    let address = [5 << 3 | 2, 4, 192, 0, 2, 1];
    for (port, target, number) in [
        // The response's port, 5301, as a field of Protocol Buffers.
        (&[7 << 3, 0xb5, 0x29][..], "192.0.2.1:5301", 5301.0),
        (&[7 << 3, 53][..], "192.0.2.1", 53.0),
        (&[][..], "192.0.2.1", f64::NAN),
    ] {
        let more = [&address, port].concat();
        let mut reader = opened(&[with(CLIENT_QUERY, Some(100), None, &more)]);
        let mut columns = Vec::new();
        while let Some(chunk) = reader.next_chunk(16) {
            columns.extend(chunk.into_columns().0);
        }
        let column =
            |name| columns.iter().find(|(known, _)| *known == name).map(|(_, column)| column);
        let Some(Column::Names(targets)) = column("target") else { panic!("no targets") };
        let Some(Column::F64(ports)) = column("port") else { panic!("no ports") };
        assert_eq!(targets.get(0), Some(target));
        assert_eq!(ports.len(), 1);
        assert!(ports[0] == number || (ports[0].is_nan() && number.is_nan()), "{ports:?}");
    }
}

#[test]
fn a_response_that_lacks_its_query_s_time_takes_it_from_the_query() {
    let query = message(CLIENT_QUERY, Some(100), None);
    let found = rows(&[query, message(CLIENT_RESPONSE, None, Some(102))]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].outcome, found[0].query_ns), ("answered", Some(2_000_000_000)));
}

#[test]
fn a_response_without_a_time_of_its_own_has_no_duration() {
    let query = message(CLIENT_QUERY, Some(100), None);
    let response = message(CLIENT_RESPONSE, Some(103), None);
    for messages in [vec![query, response.clone()], vec![response]] {
        let found = rows(&messages);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].outcome, found[0].query_ns, found[0].total_ns),
            ("answered", None, None)
        );
    }
}

/// BIND 9.18 as an authoritative server, whose threads write independently.
#[test]
fn a_response_of_another_type_and_one_before_its_query_pair() {
    let found =
        rows(&[message(AUTH_QUERY, Some(100), None), message(CLIENT_RESPONSE, None, Some(100))]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].outcome, found[0].total_ns), ("answered", Some(0)));
    let found =
        rows(&[message(CLIENT_RESPONSE, None, Some(100)), message(AUTH_QUERY, Some(100), None)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].outcome, found[0].total_ns), ("answered", Some(0)));
}

#[test]
fn a_response_to_another_question_is_another_exchange() {
    let mut other = message(CLIENT_RESPONSE, None, Some(101));
    let kind = other.len() - 3;
    other[kind] = 1;
    let found = rows(&[message(CLIENT_QUERY, Some(100), None), other]);
    let outcomes: Vec<_> = found.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, ["no-reply-seen", "no-query-seen"]);
}

#[test]
fn a_query_that_was_repeated_is_one_exchange_from_its_first_attempt() {
    let query = |seconds| message(CLIENT_QUERY, Some(seconds), None);
    let found = rows(&[query(100), query(105), message(CLIENT_RESPONSE, None, Some(106))]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].attempts, found[0].replies), (Some(2), Some(1)));
    assert_eq!((found[0].query_ns, found[0].total_ns), (Some(1_000_000_000), Some(6_000_000_000)));
}

#[test]
fn messages_of_bind_are_counted_because_its_clock_is_coarse() {
    for (version, coarse) in [(&b"BIND 9.18.49"[..], 1), (b"Knot DNS 3.2.6", 0)] {
        let mut frame = vec![2 << 3 | 2, version.len() as u8];
        frame.extend(version);
        frame.extend(message(CLIENT_QUERY, Some(100), None));
        let mut reader = opened(&[frame]);
        while reader.next_chunk(16).is_some() {}
        assert_eq!(reader.notes()[0].remarks.count(Remark::Coarse), coarse);
    }
}

/// /dev/zero begins as Frame Streams do, and never ends.
#[test]
fn a_control_frame_without_a_type_ends_the_file() {
    let zeros = std::io::repeat(0);
    let mut reader = Watched::open(zeros, &[53]).expect("it begins as dnstap");
    while let Some(chunk) = reader.next_chunk(16) {
        assert!(chunk.is_empty());
    }
    assert_eq!(reader.notes()[0].skipped.total(), 1);
}
