//! Traffic that asks servers for blocks and pages: closed forms of the time that it takes.

use crate::common::{
    self, Dialogue, fingerprint, link, numbers, pfifo, profile, run, table, texts,
};
use narrows_sim::plan::dns::client::Udp;
use narrows_sim::plan::incast::{Incast, RoundTrip};
use narrows_sim::plan::page::{Object, Page, Resolver};
use narrows_sim::plan::responder::Responder;
use narrows_sim::plan::{Application, Draw, Kind, Modes, Path, Plan};
use narrows_sim::{Simulation, tcp};
use narrows_units::{Bytes, Span, Time};

/// A full segment of the profile with timestamps: its payload, its IP packet, and its frame.
const SEGMENT: u64 = 1448;
const FULL: u64 = 1500;
const ON_WIRE: u64 = FULL + 38;

/// Servers behind a switch, whose port to the client has a queue of `queue` packets; the client is
/// node 0, the switch node 1. All links have `mbit` and 100 us.
fn star(servers: usize, mbit: u64, queue: u32) -> Plan {
    let mut nodes = vec!["client".to_owned(), "switch".to_owned()];
    let delay = Span::from_us(100);
    let mut links = vec![
        link("client.forward", 0, 1, mbit, delay, pfifo(10_000)),
        link("client.backward", 1, 0, mbit, delay, pfifo(queue)),
    ];
    let mut paths = Vec::new();
    for server in 0..servers {
        let (node, first) = (nodes.len(), links.len());
        nodes.push(format!("server{server}"));
        links.push(link(&format!("s{server}.forward"), 1, node, mbit, delay, pfifo(10_000)));
        links.push(link(&format!("s{server}.backward"), node, 1, mbit, delay, pfifo(10_000)));
        paths.push(Path { from: 0, to: node, links: vec![0, first] });
        paths.push(Path { from: node, to: 0, links: vec![first + 1, 1] });
    }
    Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(60),
        end_when_done: false,
        event_limit: 100_000_000,
        nodes,
        links,
        tcp: vec![tcp::Config { timestamps: true, nagle: false, ..profile("linux-6") }],
        paths,
        applications: Vec::new(),
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: None,
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes::default(),
    }
}

fn round_trip(server: usize) -> RoundTrip {
    RoundTrip { there: 2 * server, back: 2 * server + 1 }
}

fn responder(service: Span) -> Kind {
    Kind::Responder(Responder { tcp: 0, service: Draw::Constant(service), secure: None })
}

fn add(plan: &mut Plan, kinds: [Kind; 2]) {
    for kind in kinds {
        plan.applications.push(Application { name: "web".into(), kind });
    }
}

/// One round for blocks of `segments` full segments.
fn incast(servers: usize, segments: u64) -> Incast {
    Incast {
        responder: 1,
        servers: (0..servers).map(round_trip).collect(),
        tcp: 0,
        start: Time::ZERO + Span::from_ms(10),
        rounds: 1,
        pause: Draw::Constant(Span::ZERO),
        request: 100,
        block: Draw::Constant(Bytes::new(segments * SEGMENT)),
        reuse: true,
    }
}

fn run_incast(mut plan: Plan, incast: Incast) -> Simulation {
    add(&mut plan, [Kind::Incast(incast), responder(Span::ZERO)]);
    run(plan)
}

/// Time on the wire of a frame, in seconds.
fn serial(on_wire: u64, mbit: u64) -> f64 {
    on_wire as f64 * 8.0 / (mbit as f64 * 1e6)
}

/// How long each round took.
fn took(simulation: &Simulation) -> Vec<f64> {
    let rows = table(simulation, "rounds");
    let (start, end) = (numbers(&rows, "start_s"), numbers(&rows, "end_s"));
    start.iter().zip(end).map(|(start, end)| end - start).collect()
}

/// Ten segments are the initial window (RFC 6928), so each server sends its block at once. The last
/// handshake's ACK leaves before the first request, which crosses two links. The first server
/// acknowledges it, and its first segment crosses the server's link. From then on, the client's
/// port is busy until the last segment has left. The other servers' acknowledgements may come in
/// between.
#[test]
fn a_round_without_loss_takes_a_round_trip_and_the_blocks_on_the_wire() {
    for (servers, mbit) in [(1, 1000), (8, 1000), (40, 100)] {
        let mut plan = star(servers, mbit, 10_000);
        // Tail probes would be sent in vain: the tails only wait at the port.
        plan.tcp[0].tlp = false;
        let simulation = run_incast(plan, incast(servers, 10));
        let acknowledgement = serial(52 + 38, mbit);
        let expected = 2.0 * acknowledgement
            + 2.0 * serial(100 + 52 + 38, mbit)
            + 4.0 * 100e-6
            + serial(ON_WIRE, mbit)
            + serial(ON_WIRE, mbit) * 10.0 * servers as f64;
        let took = took(&simulation);
        assert_eq!(took.len(), 1);
        let above = took[0] - expected;
        let most = acknowledgement * (servers - 1) as f64;
        assert!((-1e-6..=most + 1e-6).contains(&above), "{servers}: {} s, {expected} s", took[0]);
        let rows = table(&simulation, "rounds");
        assert_eq!(numbers(&rows, "bytes"), [(servers as u64 * 10 * SEGMENT) as f64]);
        assert_eq!(numbers(&rows, "segments_retransmitted"), [0.0]);
    }
}

/// SYN, SYN-ACK, then ACK and request: one round trip more.
#[test]
fn a_round_with_new_connections_takes_another_round_trip() {
    let mut settings = incast(1, 10);
    (settings.reuse, settings.rounds) = (false, 3);
    settings.pause = Draw::Constant(Span::from_ms(5));
    let simulation = run_incast(star(1, 1000, 10_000), settings);
    // SYN and SYN-ACK have 20 bytes of options beyond 40; the ACK leaves before the request.
    let handshake = 4.0 * (serial(60 + 38, 1000) + 100e-6);
    let acknowledgement = serial(52 + 38, 1000);
    let request = serial(100 + 52 + 38, 1000);
    let answer = 4.0 * 100e-6 + 11.0 * serial(ON_WIRE, 1000);
    let expected = handshake + acknowledgement + 2.0 * request + answer;
    let rounds = took(&simulation);
    assert_eq!(rounds.len(), 3);
    for took in &rounds {
        assert!((took - expected).abs() < 2e-6, "{took} s, {expected} s");
    }
    let starts = numbers(&table(&simulation, "rounds"), "start_s");
    for number in 1..3 {
        let pause = starts[number] - starts[number - 1] - rounds[number - 1];
        assert!((pause - 0.005).abs() < 1e-9, "{pause}");
    }
}

#[test]
fn service_times_add_up() {
    let mut plan = star(1, 1000, 10_000);
    let settings = Incast { rounds: 4, ..incast(1, 1) };
    let quick = took(&run_incast(plan.clone(), settings.clone()));
    add(&mut plan, [Kind::Incast(settings), responder(Span::from_ms(3))]);
    for (quick, slow) in quick.into_iter().zip(took(&run(plan))) {
        // Without a service time the acknowledgement goes first: 90 bytes.
        assert!((slow - quick - 0.003).abs() < 1e-6);
    }
}

/// Phanishayee et al. 2008: as servers are added, a small port buffer loses whole windows, and the
/// goodput falls by an order of magnitude, because rounds of some milliseconds wait for timeouts
/// of 200 ms (`TCP_RTO_MIN` of Linux then and now).
#[test]
fn too_many_servers_for_the_buffer_wait_for_a_timeout() {
    let of = |servers: usize, queue| {
        let mut plan = star(servers, 1000, queue);
        plan.tcp[0] = tcp::Config { timestamps: true, ..profile("linux-2.6.30") };
        run_incast(plan, Incast { rounds: 20, ..incast(servers, 10) })
    };
    let goodput = |simulation: &Simulation| {
        let bytes: f64 = numbers(&table(simulation, "rounds"), "bytes").iter().sum();
        bytes * 8.0 / took(simulation).iter().sum::<f64>() / 1e6
    };
    let timeouts = |simulation: &Simulation| -> f64 {
        numbers(&table(simulation, "rounds"), "timeouts").iter().sum()
    };
    let (few, many, buffered) = (of(4, 64), of(40, 64), of(40, 20_000));
    assert_eq!((timeouts(&few), timeouts(&buffered)), (0.0, 0.0));
    assert!(goodput(&buffered) > 800.0, "{}", goodput(&buffered));
    assert!(goodput(&many) < goodput(&few) / 3.0, "{} {}", goodput(&many), goodput(&few));
    assert!(timeouts(&many) > 0.0);
    let longest = took(&many).into_iter().fold(0.0, f64::max);
    assert!(longest > 0.2, "{longest}");
}

#[test]
fn a_round_that_a_server_does_not_answer_has_no_end() {
    let mut plan = star(2, 1000, 100);
    // Nothing comes from the second server.
    plan.links[5].loss = 1.0.into();
    plan.tcp[0].max_retries = 2;
    let settings = Incast { rounds: 2, reuse: false, ..incast(2, 10) };
    let simulation = run_incast(plan, settings);
    let rows = table(&simulation, "rounds");
    assert_eq!(numbers(&rows, "failed"), [1.0, 1.0]);
    assert_eq!(numbers(&rows, "bytes"), [14_480.0; 2]);
    assert!(numbers(&rows, "end_s").iter().all(|end| end.is_nan()));
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    let refusal = |change: fn(&mut Incast)| {
        let mut settings = incast(1, 1);
        change(&mut settings);
        let mut plan = star(1, 1000, 100);
        add(&mut plan, [Kind::Incast(settings), responder(Span::ZERO)]);
        Simulation::new(plan).expect_err("the plan is not sound").to_string()
    };
    assert_eq!(refusal(|s| s.rounds = 0), "web: rounds: must be above zero");
    assert_eq!(refusal(|s| s.servers.clear()), "web: servers: needs at least 1 entry");
    assert_eq!(refusal(|s| s.request = 0), "web: request: must be above zero");
    assert_eq!(refusal(|s| s.responder = 9), "web: server: no such application");
    assert_eq!(refusal(|s| s.responder = 0), "web: server: \"web\" answers nothing like this");
    assert_eq!(refusal(|s| s.block = Draw::List(vec![])), "web: block: needs at least 1 entry");
}

/// An object of one segment, on the first server.
fn object(after: &[usize]) -> Object {
    Object {
        name: format!("after {after:?}"),
        server: 0,
        bytes: Draw::Constant(Bytes::new(1000)),
        after: after.to_vec(),
        wait: Span::ZERO,
    }
}

/// A page as HTTP/1.1 fetches it.
fn page(objects: Vec<Object>) -> Page {
    Page {
        responder: 1,
        servers: vec![round_trip(0)],
        tcp: 0,
        browsers: 1,
        start: Time::ZERO + Span::from_ms(10),
        spread: Span::ZERO,
        loads: 1,
        pause: Draw::Constant(Span::from_ms(500)),
        connections: 6,
        streams: 1,
        request: 300,
        objects,
        secure: None,
        resolver: None,
    }
}

fn http_2(page: Page) -> Page {
    Page { connections: 1, streams: 100, ..page }
}

/// Servers at a round trip of 40 ms, on fast links.
fn far(servers: usize) -> Plan {
    let mut plan = star(servers, 10_000, 10_000);
    for link in &mut plan.links {
        link.delay = Span::from_ms(10);
    }
    plan
}

const ROUND_TRIP: f64 = 0.04;

fn run_page(mut plan: Plan, page: Page) -> Simulation {
    add(&mut plan, [Kind::Page(page), responder(Span::ZERO)]);
    run(plan)
}

fn load_times(simulation: &Simulation) -> Vec<f64> {
    let rows = table(simulation, "pages");
    let (start, end) = (numbers(&rows, "start_s"), numbers(&rows, "end_s"));
    start.iter().zip(end).map(|(start, end)| end - start).collect()
}

/// A round trip for the handshake, one for each object of the longest chain, and the waits on it.
#[test]
fn a_page_takes_the_sum_of_its_critical_path() {
    let mut style = object(&[0]);
    style.wait = Span::from_ms(7);
    let mut font = object(&[1]);
    font.wait = Span::from_ms(5);
    let chain = vec![object(&[]), style, font];
    // Images that are not on the critical path. Over HTTP/1.1 they would occupy connections.
    let mut image = object(&[0]);
    image.wait = Span::from_ms(20);
    let with_images = [chain.clone(), vec![image.clone(), image]].concat();
    for page in [page(chain), http_2(page(with_images))] {
        let simulation = run_page(far(1), page);
        let expected = (1.0 + 3.0) * ROUND_TRIP + 0.007 + 0.005;
        let took = load_times(&simulation);
        assert!((took[0] - expected).abs() < 2e-4, "{} {expected}", took[0]);
        let first = numbers(&table(&simulation, "pages"), "first_s")[0] - 0.01;
        assert!((first - 2.0 * ROUND_TRIP).abs() < 1e-4, "{first}");
        let rows = table(&simulation, "objects");
        let waited = numbers(&rows, "ready_s")[2] - numbers(&rows, "end_s")[1];
        assert!((waited - 0.005).abs() < 1e-9, "{waited}");
    }
}

/// Small objects that the page itself names. HTTP/2 asks for all of them at once, in one round
/// trip. HTTP/1.1 asks for one on the connection that is there, and opens five more: in the next
/// two round trips, seven objects come (two of them on the old connection). Six more take another
/// one.
#[test]
fn small_objects_take_rounds_on_six_connections_and_one_on_http_2() {
    let with = |small: usize| {
        let mut objects = vec![object(&[])];
        objects.extend((0..small).map(|_| object(&[0])));
        page(objects)
    };
    for (page, round_trips, connections) in
        [(with(7), 4.0, 6.0), (with(13), 5.0, 6.0), (http_2(with(7)), 3.0, 1.0)]
    {
        let simulation = run_page(far(1), Page { loads: 3, ..page });
        assert_eq!(numbers(&table(&simulation, "pages"), "connections"), [connections; 3]);
        for took in load_times(&simulation) {
            assert!((took - round_trips * ROUND_TRIP).abs() < 4e-4, "{took} s");
        }
    }
}

/// Two servers: the second one's objects need a handshake of their own, at the same time.
#[test]
fn each_server_has_its_connections() {
    let mut elsewhere = object(&[0]);
    elsewhere.server = 1;
    let objects = vec![object(&[]), object(&[0]), elsewhere];
    let page = Page { servers: vec![round_trip(0), round_trip(1)], ..http_2(page(objects)) };
    let simulation = run_page(far(2), page);
    assert_eq!(numbers(&table(&simulation, "pages"), "connections"), [2.0]);
    let took = load_times(&simulation)[0];
    assert!((took - 4.0 * ROUND_TRIP).abs() < 2e-4, "{took}");
}

/// A list of sizes gives those of successive loads.
#[test]
fn an_objects_size_may_change_from_load_to_load() {
    let mut only = object(&[]);
    only.bytes = Draw::List([1000, 5000].map(Bytes::new).to_vec());
    let simulation = run_page(far(1), Page { loads: 3, ..page(vec![only]) });
    assert_eq!(numbers(&table(&simulation, "pages"), "bytes"), [1000.0, 5000.0, 1000.0]);
}

#[test]
fn a_page_of_which_an_object_never_comes_fails() {
    let mut plan = far(2);
    plan.links[5].loss = 1.0.into();
    plan.tcp[0].max_retries = 1;
    let mut elsewhere = object(&[0]);
    elsewhere.server = 1;
    let objects = vec![object(&[]), elsewhere, object(&[1])];
    let page = Page { servers: vec![round_trip(0), round_trip(1)], loads: 2, ..page(objects) };
    let simulation = run_page(plan, page);
    let rows = table(&simulation, "pages");
    assert_eq!(numbers(&rows, "failed"), [1.0, 1.0]);
    assert!(numbers(&rows, "end_s").iter().all(|end| end.is_nan()));
    assert_eq!(numbers(&rows, "bytes"), [1000.0, 1000.0]);
}

/// What the simulator computes ahead of time changes no result.
#[test]
fn results_do_not_depend_on_shortcuts() {
    let mut plan = star(6, 100, 40);
    let settings = Incast { rounds: 6, reuse: false, ..incast(6, 40) };
    add(&mut plan, [Kind::Incast(settings), responder(Span::from_us(300))]);
    let mut objects = vec![object(&[])];
    objects.extend((0..20).map(|_| object(&[0])));
    let browsing = Page { responder: 3, browsers: 5, loads: 4, ..page(objects) };
    add(&mut plan, [Kind::Page(browsing), responder(Span::from_ms(2))]);
    let with = fingerprint(&run(plan.clone()));
    plan.modes.collapse = false;
    assert_eq!(with, fingerprint(&run(plan)));
}

/// Clients deliver what the servers answered, also over connections whose numbers are used again.
#[test]
fn the_goodput_of_clients_is_what_they_asked_for() {
    let mut plan = star(6, 100, 40);
    plan.goodput_interval = Some(Span::from_ms(10));
    let settings = Incast { rounds: 6, reuse: false, ..incast(6, 40) };
    add(&mut plan, [Kind::Incast(settings), responder(Span::from_us(300))]);
    let objects = [vec![object(&[])], vec![object(&[0]); 20]].concat();
    let browsing = Page { responder: 3, browsers: 5, loads: 4, ..page(objects) };
    add(&mut plan, [Kind::Page(browsing), responder(Span::from_ms(2))]);
    plan.applications[2].name = "pages".into();
    let simulation = run(plan);
    let rows = table(&simulation, "goodput");
    let last = |group| {
        let mut groups = texts(&rows, "group").into_iter().zip(numbers(&rows, "bytes_received"));
        groups.rfind(|found| found.0 == group).map(|found| found.1)
    };
    // Six rounds of six blocks of 40 segments; five browsers load 21 objects of 1000 bytes 4 times.
    assert_eq!(last("web"), Some(6.0 * 6.0 * 40.0 * SEGMENT as f64));
    assert_eq!(last("pages"), Some(5.0 * 4.0 * 21.0 * 1000.0));
}

#[test]
fn pages_that_contradict_themselves_are_refused() {
    let refusal = |change: fn(&mut Page)| {
        let mut settings = page(vec![object(&[]), object(&[0])]);
        change(&mut settings);
        let mut plan = far(1);
        add(&mut plan, [Kind::Page(settings), responder(Span::ZERO)]);
        Simulation::new(plan).expect_err("the plan is not sound").to_string()
    };
    assert_eq!(
        refusal(|p| p.objects[1].after = vec![1]),
        "web: after [0]: after: must be earlier objects"
    );
    assert_eq!(refusal(|p| p.objects[1].server = 1), "web: after [0]: server: no such server");
    assert_eq!(refusal(|p| p.loads = 0), "web: loads: must be above zero");
    assert_eq!(
        refusal(|p| (p.browsers, p.loads) = (10, 1_000_000)),
        "web: loads: 20000000 objects are more than the limit of 10000000"
    );
}

/// A page with `names` names for one server, and a resolver that asks over UDP and gives up after two
/// seconds.
fn run_with_names(mut plan: Plan, names: usize, cached: f64, page: Page) -> Simulation {
    let Dialogue { mut client, mut server } = Dialogue::new();
    (client.queries, client.think_mean, client.tcp) = (Some(0), Span::ZERO, None);
    (client.workers, client.server) = (page.browsers * names as u32, 3);
    client.udp = Some(Udp { timeouts: vec![Span::from_secs(2)], ..common::udp() });
    (server.service, server.tcp) = (Span::ZERO, None);
    let resolver = Some(Resolver { client: 2, cached });
    add(
        &mut plan,
        [
            Kind::Page(Page { servers: vec![round_trip(0); names], resolver, ..page }),
            responder(Span::ZERO),
        ],
    );
    add(&mut plan, [Kind::DnsClient(client), Kind::DnsServer(server)]);
    run(plan)
}

/// The second name is needed when the page itself is there, and its answer takes a round trip. Objects
/// there wait for the same answer.
#[test]
fn a_name_takes_a_round_trip_before_the_connection() {
    let mut elsewhere = object(&[0]);
    elsewhere.server = 1;
    let objects = vec![object(&[]), elsewhere.clone(), elsewhere];
    let with = |cached| {
        let page = Page { loads: 2, ..http_2(page(objects.clone())) };
        run_with_names(far(1), 2, cached, page)
    };
    for (cached, names) in [(0.0, 4), (1.0, 0)] {
        let simulation = with(cached);
        // For each name: a handshake, and the object; before them, the name.
        let expected = (2.0 + 2.0 + if names > 0 { 2.0 } else { 0.0 }) * ROUND_TRIP;
        for took in load_times(&simulation) {
            assert!((took - expected).abs() < 3e-4, "{took} {expected}");
        }
        assert_eq!(numbers(&table(&simulation, "queries"), "query").len(), names);
        let rows = table(&simulation, "lookups");
        assert_eq!(numbers(&rows, "host"), [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(numbers(&rows, "load"), [0.0, 0.0, 1.0, 1.0]);
        assert_eq!(numbers(&rows, "cached"), [f64::from(u8::from(names == 0)); 4]);
        let (asked, end) = (numbers(&rows, "asked_s"), numbers(&rows, "end_s"));
        for (number, (asked, end)) in asked.iter().zip(end).enumerate() {
            let expected = if names > 0 { ROUND_TRIP } else { 0.0 };
            assert!((end - asked - expected).abs() < 1e-4, "{asked} {end}");
            let query = numbers(&rows, "query")[number];
            assert!(if names > 0 { query == number as f64 } else { query.is_nan() });
        }
        for (load, took) in numbers(&rows, "load_s").iter().zip([0, 0, 1, 1]) {
            assert!((load - load_times(&simulation)[took]).abs() < 1e-9);
        }
    }
}

/// The resolver gives up after two seconds; the page fails, and the next one asks again.
#[test]
fn a_name_without_an_answer_fails_the_page() {
    let mut plan = far(1);
    plan.links[1].loss = 1.0.into();
    let page = Page { loads: 2, ..page(vec![object(&[]), object(&[0])]) };
    let simulation = run_with_names(plan, 1, 0.0, page);
    let rows = table(&simulation, "lookups");
    assert_eq!((numbers(&rows, "failed"), numbers(&rows, "query")), (vec![1.0; 2], vec![0.0, 1.0]));
    let (asked, end) = (numbers(&rows, "asked_s"), numbers(&rows, "end_s"));
    assert!(asked.iter().zip(end).all(|(asked, end)| (end - asked - 2.0).abs() < 1e-9));
    assert_eq!(numbers(&table(&simulation, "pages"), "failed"), [1.0; 2]);
    assert!(numbers(&table(&simulation, "objects"), "end_s").iter().all(|end| end.is_nan()));
}

#[test]
fn a_resolver_serves_only_pages() {
    let mut plan = far(1);
    let resolver = Some(Resolver { client: 1, cached: 0.0 });
    add(
        &mut plan,
        [Kind::Page(Page { resolver, ..page(vec![object(&[])]) }), responder(Span::ZERO)],
    );
    let why = plan.check().map_err(|why| why.to_string());
    assert_eq!(why, Err("web: resolver: server: \"web\" answers nothing like this".to_owned()));
}
