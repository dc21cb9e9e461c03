use super::*;

fn asker(port: u16) -> Asker {
    let connection = Connection {
        client: SocketAddr::from(([192, 0, 2, 9], port)),
        server: SocketAddr::from(([192, 0, 2, 53], 53)),
    };
    Asker { connection, peer: Peer::default() }
}

fn query(id: u16, name: &str) -> Vec<u8> {
    let mut message = vec![0; 12];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message[5] = 1;
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// Returns a server's socket and an upstream to that server.
fn pair(limit: usize) -> (UdpSocket, Upstream) {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    server.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    let address = server.local_addr().expect("bound");
    (server, Upstream::new(vec![address], limit, None).expect("random numbers"))
}

/// Waits for the next answer on any socket.
fn wait(upstream: &mut Upstream, strange: &mut u64) -> Option<(Asker, Vec<u8>)> {
    let mut inbox = Inbox::new();
    for _ in 0..100 {
        for at in 0..SOCKETS as u32 {
            upstream.receive(at, &mut inbox);
            for number in 0..inbox.len() {
                let (message, _) = inbox.packet(number);
                match upstream.accept(at, message) {
                    Some(asker) => return Some((asker, message.to_vec())),
                    None => *strange += 1,
                }
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[test]
fn an_answer_finds_its_asker_and_has_the_clients_id() {
    let (server, mut upstream) = pair(10);
    let mut ids = Vec::new();
    for port in 1..=5 {
        // All clients use the same ID and the same name, spelt with different cases.
        let message = query(7, "Example.test");
        assert!(matches!(upstream.ask(0, asker(port), message, Duration::ZERO), Asked::Sent(_)));
        upstream.flush();
        let mut buffer = [0; 512];
        let (length, from) = server.recv_from(&mut buffer).expect("the query");
        ids.push([buffer[0], buffer[1]]);
        buffer[2] |= 0x80;
        buffer[12..length].make_ascii_lowercase();
        server.send_to(&buffer[..length], from).expect("sent");
        let (who, answer) = wait(&mut upstream, &mut 0).expect("an answer");
        assert_eq!((who, &answer[..2]), (asker(port), &[0, 7][..]));
    }
    ids.dedup();
    assert!(ids.len() > 1, "the server sees IDs of ours");
    assert!(upstream.open.is_empty() && upstream.asked.is_empty());
}

#[test]
fn what_is_no_answer_is_passed_over() {
    let (server, mut upstream) = pair(10);
    upstream.ask(0, asker(1), query(7, "example.test"), Duration::ZERO);
    upstream.flush();
    let mut buffer = [0; 512];
    let (length, from) = server.recv_from(&mut buffer).expect("the query");
    let right = &mut buffer[..length];
    let mut forged = [right.to_vec(), right.to_vec(), right.to_vec(), right[..11].to_vec()];
    // A wrong ID, a wrong question, no answer at all, too short.
    forged[0][0] ^= 1;
    forged[0][2] |= 0x80;
    forged[1][13] ^= 1;
    forged[1][2] |= 0x80;
    for message in &forged {
        server.send_to(message, from).expect("sent");
    }
    right[2] |= 0x80;
    server.send_to(right, from).expect("sent");
    let mut strange = 0;
    assert_eq!(wait(&mut upstream, &mut strange).map(|(who, _)| who), Some(asker(1)));
    assert_eq!(strange, 4);
}

#[test]
fn a_repeated_query_keeps_its_id_and_another_one_of_the_connection_takes_its_place() {
    let (server, mut upstream) = pair(10);
    let mut seen = Vec::new();
    for name in ["example.test", "example.test", "other.test"] {
        upstream.ask(0, asker(1), query(7, name), Duration::ZERO);
        upstream.flush();
        let mut buffer = [0; 512];
        let (length, from) = server.recv_from(&mut buffer).expect("the query");
        seen.push((from.port(), buffer[..length].to_vec()));
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[1].1, seen[2].1);
    assert_eq!((upstream.open.len(), upstream.asked.len()), (1, 1));
}

#[test]
fn no_more_are_open_than_may_be_and_old_ones_make_room() {
    let (_server, mut upstream) = pair(3);
    let at = |n| Duration::from_secs(n);
    for port in 1..=3 {
        let asked = upstream.ask(0, asker(port), query(7, "a"), at(port.into()));
        assert!(matches!(asked, Asked::Sent(_)));
    }
    assert_eq!(upstream.ask(0, asker(4), query(7, "a"), at(4)), Asked::Full);
    upstream.expire(at(3));
    assert_eq!((upstream.open.len(), upstream.order.len()), (1, 1));
    assert!(matches!(upstream.ask(0, asker(4), query(7, "a"), at(4)), Asked::Sent(_)));
}

#[test]
fn sockets_give_way_to_others_with_time() {
    let (server, mut upstream) = pair(10);
    upstream.ask(0, asker(1), query(7, "a"), Duration::ZERO);
    upstream.flush();
    let at = upstream.sockets.iter().position(Option::is_some).expect("one socket");
    let port = |upstream: &Upstream| {
        let socket = upstream.sockets[at].as_ref().expect("it is open");
        socket.socket.local_addr().expect("bound").port()
    };
    let before = port(&upstream);
    upstream.sockets[at].as_mut().expect("it is open").uses = USES;
    for n in 0..500 {
        upstream.ask(0, asker(2), query(n, "a"), Duration::ZERO);
        upstream.flush();
    }
    assert_eq!(port(&upstream), before, "a query on it is open");
    upstream.expire(Duration::from_secs(9));
    for n in 0..500 {
        upstream.ask(0, asker(2), query(n, "a"), Duration::ZERO);
        upstream.flush();
        upstream.expire(Duration::from_secs(9));
    }
    assert_ne!(port(&upstream), before);
    drop(server);
}

#[test]
fn queries_between_two_flushes_go_from_one_socket_with_ids_of_their_own() {
    let (server, mut upstream) = pair(100);
    let mut ports = std::collections::BTreeSet::new();
    for turn in 0..20 {
        for port in 1..=5 {
            upstream.ask(0, asker(10 * turn + port), query(7, "a"), Duration::ZERO);
        }
        upstream.flush();
        let mut buffer = [0; 512];
        let got: Vec<_> = (0..5)
            .map(|_| {
                let (_, from) = server.recv_from(&mut buffer).expect("the query");
                (from.port(), [buffer[0], buffer[1]])
            })
            .collect();
        assert!(got.iter().all(|(port, _)| *port == got[0].0), "{got:?}");
        assert!(got.iter().any(|(_, id)| *id != got[0].1), "{got:?}");
        ports.insert(got[0].0);
    }
    assert!(ports.len() > 4, "{ports:?}");
}

/// A closed port refuses each datagram (ICMP), and the next call reports that.
#[test]
fn a_server_that_comes_back_is_asked_again() {
    let (server, mut upstream) = pair(100);
    let address = server.local_addr().expect("bound");
    drop(server);
    let (mut strange, mut inbox) = (0, Inbox::new());
    for port in 1..=40 {
        upstream.ask(0, asker(port), query(7, "a"), Duration::ZERO);
        if port % 4 == 0 {
            upstream.flush();
        }
        for at in 0..SOCKETS as u32 {
            upstream.receive(at, &mut inbox);
            assert!(inbox.is_empty());
        }
    }
    let server = UdpSocket::bind(address).expect("its port");
    server.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    for port in 41..=60 {
        upstream.ask(0, asker(port), query(7, "a"), Duration::ZERO);
        upstream.flush();
        let mut buffer = [0; 512];
        let (length, from) = server.recv_from(&mut buffer).expect("the query");
        buffer[2] |= 0x80;
        server.send_to(&buffer[..length], from).expect("sent");
        let who = wait(&mut upstream, &mut strange).map(|(who, _)| who);
        assert_eq!((who, strange), (Some(asker(port)), 0));
    }
}
