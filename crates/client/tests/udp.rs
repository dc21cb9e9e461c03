//! How UDP servers behave, and what the client reports.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use common::{reply, udp};
use narrows_client::{Client, Outcome, Query, Schedule, Server, Stage, Transport};

fn query() -> Query {
    Query::new("example.", "TXT").expect("a query")
}

fn client(address: SocketAddr) -> Client {
    let server = Server::new(address, Transport::Udp);
    Client::new(Server { timeout: Duration::from_millis(400), ..server }).expect("a client")
}

#[test]
fn a_reply_has_its_time_and_its_flags() {
    let address = udp(|query| {
        std::thread::sleep(Duration::from_millis(30));
        let mut reply = reply(query, 100);
        reply[2] |= 0x02; // TC
        reply[3] |= 5; // REFUSED
        vec![reply]
    });
    let exchange = client(address).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Answered, None));
    let times = exchange.times;
    assert!(times.query.is_some_and(|time| time >= Duration::from_millis(30)), "{times:?}");
    assert!(times.total >= times.query && times.connect.is_none());
    let reply = exchange.reply.expect("a reply");
    assert!(reply.truncated);
    assert_eq!(reply.rcode, 5);
    assert_eq!(exchange.reused, None);
}

#[test]
fn datagrams_that_answer_something_else_are_passed_over() {
    let address = udp(|query| {
        let mut other = reply(query, 0);
        other[1] ^= 1;
        vec![b"garbage".to_vec(), other, reply(query, 0)]
    });
    assert_eq!(client(address).ask(&query()).outcome, Outcome::Answered);
    let wrong = udp(|query| {
        let mut other = reply(query, 0);
        other[1] ^= 1;
        vec![other]
    });
    let exchange = client(wrong).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Mismatched, Some(Stage::Query)));
    assert_eq!(exchange.detail, "a reply with another number");
}

#[test]
fn silence_and_refusal_are_told_apart() {
    let address = udp(|_| Vec::new());
    let exchange = client(address).ask(&query());
    assert_eq!(exchange.outcome, Outcome::Timeout);
    let gone = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let exchange = client(gone).ask(&query());
    assert_eq!(exchange.outcome, Outcome::Refused, "{exchange:?}");
    assert_eq!(exchange.detail, "connection refused");
}

#[test]
fn a_schedule_asks_again_after_its_timeouts() {
    let mut asked = 0;
    let address = udp(move |query| {
        asked += 1;
        if asked < 3 { Vec::new() } else { vec![reply(query, 0)] }
    });
    let millis = [50, 100, 2000].map(Duration::from_millis);
    let schedule = Schedule::new(millis.to_vec()).expect("attempts");
    let exchanges = client(address).ask_again(&query(), &schedule);
    let outcomes: Vec<Outcome> = exchanges.iter().map(|exchange| exchange.outcome).collect();
    assert_eq!(outcomes, [Outcome::Timeout, Outcome::Timeout, Outcome::Answered]);
    let between = exchanges[2].started.duration_since(exchanges[0].started).expect("later");
    assert!(between >= Duration::from_millis(150), "{between:?}");
}
