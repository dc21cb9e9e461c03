//! How TCP servers behave, and what the client reports.

mod common;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use common::{framed, next_query, reply, tcp, write_pieces};
use narrows_client::{Client, Closer, Ending, Outcome, Prefix, Query, Server, Stage, Transport};

const PAUSE: Duration = Duration::from_millis(30);

fn query() -> Query {
    Query::new(".", "SOA").expect("a query")
}

fn server(address: SocketAddr) -> Server {
    Server { timeout: Duration::from_millis(400), ..Server::new(address, Transport::Tcp) }
}

fn client(address: SocketAddr) -> Client {
    Client::new(server(address)).expect("a client")
}

#[test]
fn a_reply_in_one_write_is_one_segment() {
    let address = tcp(|mut connection| {
        let query = next_query(&mut connection).expect("a query");
        write_pieces(&mut connection, &[&framed(&reply(&query, 700))], PAUSE);
        next_query(&mut connection);
    });
    let mut client = client(address);
    let exchange = client.ask(&query());
    assert_eq!(exchange.outcome, Outcome::Answered, "{exchange:?}");
    assert_eq!(exchange.query_bytes, 28);
    let reply = exchange.reply.expect("a reply");
    assert_eq!(reply.bytes, 728);
    assert_eq!(exchange.segments.count, Some(1));
    assert_eq!(exchange.segments.sizes, [730]);
    assert_eq!(exchange.segments.prefix, Some(Prefix::Joined));
    assert_eq!(exchange.segments.query_again, Some(0));
    let times = exchange.times;
    assert_eq!(times.first_byte, times.query);
    assert!(times.connect.is_some() && times.total >= times.query, "{times:?}");
    let facts = client.take_connections();
    assert_eq!(facts.len(), 1);
    assert_eq!((facts[0].exchanges, facts[0].ending), (1, Ending::Fin));
    assert_eq!(facts[0].closer, Some(Closer::Client));
    assert_eq!((facts[0].client_bytes, facts[0].server_bytes), (Some(30), Some(730)));
}

#[test]
fn the_first_and_the_last_byte_have_times_of_their_own() {
    let address = tcp(|mut connection| {
        let query = next_query(&mut connection).expect("a query");
        let message = framed(&reply(&query, 717));
        write_pieces(&mut connection, &[&message[..2], &message[2..]], PAUSE);
        next_query(&mut connection);
    });
    let exchange = client(address).ask(&query());
    assert_eq!(exchange.segments.prefix, Some(Prefix::Alone), "{exchange:?}");
    assert_eq!(exchange.segments.sizes, [2, 745]);
    let (first, last) = (exchange.times.first_byte, exchange.times.query);
    let (first, last) = (first.expect("a time"), last.expect("a time"));
    // Only the server's pause lies between them.
    assert!(last - first >= PAUSE, "{exchange:?}");
}

#[test]
fn a_length_byte_by_byte_is_split() {
    let address = tcp(|mut connection| {
        let query = next_query(&mut connection).expect("a query");
        let message = framed(&reply(&query, 0));
        write_pieces(&mut connection, &[&message[..1], &message[1..]], PAUSE);
        next_query(&mut connection);
    });
    let exchange = client(address).ask(&query());
    assert_eq!(exchange.segments.prefix, Some(Prefix::Split));
    assert_eq!(exchange.segments.sizes, [1, 29]);
}

#[test]
fn a_connection_that_is_kept_carries_the_next_query() {
    let address = tcp(|mut connection| {
        while let Some(query) = next_query(&mut connection) {
            write_pieces(&mut connection, &[&framed(&reply(&query, 10))], PAUSE);
        }
    });
    let mut client = Client::new(Server { reuse: true, ..server(address) }).expect("a client");
    let first = client.ask(&query());
    let second = client.ask(&query());
    assert_eq!((first.reused, second.reused), (Some(false), Some(true)));
    assert_eq!((first.connection, second.connection), (Some(0), Some(0)));
    assert_eq!(second.times.connect, None);
    assert_eq!(second.segments.sizes, [40]);
    assert!(client.take_connections().is_empty(), "it is open");
    client.close();
    let facts = client.take_connections();
    assert_eq!((facts[0].exchanges, facts[0].server_bytes), (2, Some(80)));
}

#[test]
fn a_kept_connection_that_the_server_closed_is_opened_anew() {
    let address = tcp(|mut connection| {
        let query = next_query(&mut connection).expect("a query");
        write_pieces(&mut connection, &[&framed(&reply(&query, 0))], PAUSE);
    });
    let mut client = Client::new(Server { reuse: true, ..server(address) }).expect("a client");
    assert_eq!(client.ask(&query()).outcome, Outcome::Answered);
    std::thread::sleep(PAUSE);
    let second = client.ask(&query());
    assert_eq!((second.outcome, second.reused), (Outcome::Answered, Some(false)));
    assert_eq!(client.take_connections()[0].closer, Some(Closer::Server));
}

#[test]
fn servers_that_do_not_answer_are_told_apart() {
    let closing = tcp(|mut connection| drop(next_query(&mut connection)));
    let exchange = client(closing).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Closed, Some(Stage::Query)));

    let cut = tcp(|mut connection| {
        let query = next_query(&mut connection).expect("a query");
        write_pieces(&mut connection, &[&framed(&reply(&query, 0))[..20]], PAUSE);
    });
    let exchange = client(cut).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Closed, Some(Stage::Reply)));
    assert_eq!(exchange.detail, "18 of 28 bytes of the message arrived");

    let slow = tcp(|mut connection| {
        let query = next_query(&mut connection).expect("a query");
        write_pieces(&mut connection, &[&framed(&reply(&query, 0))[..20]], PAUSE);
        next_query(&mut connection);
    });
    let exchange = client(slow).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Timeout, Some(Stage::Reply)));
    assert_eq!(exchange.detail, "18 of 28 bytes of the message arrived");

    let other = tcp(|mut connection| {
        next_query(&mut connection);
        write_pieces(&mut connection, &[b"HTTP/1.1 400 Bad Request\r\n\r\n"], PAUSE);
    });
    let exchange = client(other).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Closed, Some(Stage::Reply)));
    assert_eq!(exchange.detail, "HTTP instead of DNS arrived");

    // The server closes with an unread query, so the kernel resets (RFC 1122, section 4.2.2.13).
    let resetting = tcp(|connection| std::thread::sleep(PAUSE.max(peek(&connection))));
    let exchange = client(resetting).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Reset, Some(Stage::Query)));

    let silent = tcp(|connection| {
        std::mem::forget(connection);
    });
    let mut asking = client(silent);
    let exchange = asking.ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Timeout, Some(Stage::Query)));
    assert!(exchange.times.connect.is_some());
    assert_eq!(asking.take_connections()[0].closer, Some(Closer::Client));

    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("bound");
    drop(nobody);
    let mut asking = client(address);
    let exchange = asking.ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Refused, Some(Stage::Connect)));
    assert_eq!(exchange.detail, "connection refused");
    assert_eq!(asking.take_connections()[0].ending, Ending::Refused);
}

fn peek(connection: &std::net::TcpStream) -> Duration {
    connection.peek(&mut [0]).expect("a query");
    PAUSE
}

#[test]
fn what_is_no_answer_has_its_name() {
    let garbage = tcp(|mut connection| {
        next_query(&mut connection);
        write_pieces(&mut connection, &[&framed(b"garbage")], PAUSE);
        next_query(&mut connection);
    });
    assert_eq!(client(garbage).ask(&query()).outcome, Outcome::Malformed);
    let other = tcp(|mut connection| {
        let mut query = next_query(&mut connection).expect("a query");
        query[0] ^= 1;
        write_pieces(&mut connection, &[&framed(&reply(&query, 0))], PAUSE);
        next_query(&mut connection);
    });
    assert_eq!(client(other).ask(&query()).outcome, Outcome::Mismatched);
}

#[test]
fn a_source_address_that_is_not_ours_is_an_error() {
    let source = Some("192.0.2.77".parse().expect("an address"));
    let address = "127.0.0.1:53".parse().expect("an address");
    let server = Server { source, ..Server::new(address, Transport::Tcp) };
    let error = Client::new(server).expect_err("not ours");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
}
