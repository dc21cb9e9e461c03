//! Clients that ask until the run ends, and queries that arrive by themselves, against closed
//! forms: a closed loop's rate, the Poisson process, and Erlang's loss formula.

use crate::common::{client_and_server, numbers, run, table, udp};
use narrows_sim::plan::Plan;
use narrows_sim::plan::dns::client::{Arrivals, Client};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server::Server;
use narrows_sim::plan::udp::Spacing;
use narrows_sim::{Simulation, Stopped};
use narrows_units::{Span, Time};

const ROUND_TRIP_MS: u64 = 40;

fn client() -> Client {
    Client {
        server: 1,
        there: 0,
        back: 1,
        workers: 1,
        start: Time::ZERO,
        spread: Span::ZERO,
        warm_up: 0,
        queries: None,
        arrivals: None,
        think_mean: Span::ZERO,
        sizes: Sizes::fixed(42, 72),
        gives_up: None,
        udp: Some(udp()),
        tcp: None,
    }
}

/// A hundred arrivals a second.
fn arriving(workers: u32, spacing: Spacing) -> Client {
    let arrivals = Arrivals { interval: Span::from_ms(10), spacing };
    Client { workers, arrivals: Some(arrivals), ..client() }
}

/// A client and a server behind a link that is hardly used.
fn plan(client: Client, service: Span, end: Span) -> Plan {
    let server = Server { service, service_jitter_mean: Span::ZERO, udp_payload: 1232, tcp: None };
    client_and_server(client, server, Span::from_ms(ROUND_TRIP_MS / 2), end)
}

fn column(simulation: &Simulation, name: &str) -> Vec<f64> {
    numbers(&table(simulation, "queries"), name)
}

fn gaps(simulation: &Simulation) -> Vec<f64> {
    column(simulation, "start_s").windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn without_a_number_of_queries_workers_ask_until_the_end() {
    let asking = Client { workers: 3, warm_up: 2, ..client() };
    let simulation = run(plan(asking, Span::ZERO, Span::from_secs(60)));
    assert_eq!((simulation.stopped(), simulation.now()), (Stopped::End, at(60)));
    // A worker asks once in a round trip, a little more than 40 ms.
    let of_each = 60_000 / ROUND_TRIP_MS;
    let index = column(&simulation, "index");
    assert_eq!(index.len(), 3 * of_each as usize);
    assert_eq!(index.last(), Some(&(of_each as f64 - 1.0)));
    let measured = column(&simulation, "measured");
    assert_eq!(measured.iter().sum::<f64>(), (3 * (of_each - 2)) as f64);
    // The last query of each is under way.
    let unfinished = column(&simulation, "end_s").iter().filter(|end| end.is_nan()).count();
    assert_eq!(unfinished, 3);
}

#[test]
fn poisson_arrivals_have_their_rate_and_exponential_gaps() {
    let simulation = run(plan(arriving(50, Spacing::Poisson), Span::ZERO, Span::from_secs(300)));
    // The number has a Poisson distribution with mean 30,000; five standard deviations are allowed.
    let arrived = column(&simulation, "start_s").len() as f64;
    assert!((arrived - 30_000.0).abs() < 5.0 * 30_000f64.sqrt(), "{arrived}");
    let mut gaps = gaps(&simulation);
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let mut furthest = 0f64;
    for (rank, gap) in gaps.iter().enumerate() {
        let expected = 1.0 - libm::exp(-gap / 0.01);
        let (below, above) = (rank as f64 / n, (rank as f64 + 1.0) / n);
        furthest = furthest.max((expected - below).abs()).max((above - expected).abs());
    }
    // Kolmogorov-Smirnov: a level of 0.1 % (Smirnov 1948).
    assert!(furthest < 1.95 / n.sqrt(), "{furthest}");
}

#[test]
fn even_arrivals_have_equal_gaps() {
    let late = Client { start: at(1), ..arriving(50, Spacing::Even) };
    let simulation = run(plan(late, Span::ZERO, Span::from_secs(11)));
    let starts = column(&simulation, "start_s");
    // From 1 s to 11 s, both included.
    assert_eq!((starts.len(), starts[0]), (1001, 1.0));
    assert!(gaps(&simulation).iter().all(|gap| (gap - 0.01).abs() < 1e-9));
}

/// The same queries begin at the same times, whatever becomes of them.
#[test]
fn arrivals_do_not_wait_for_answers() {
    let starts = |service| {
        let simulation = run(plan(arriving(1000, Spacing::Poisson), service, Span::from_secs(5)));
        column(&simulation, "start_s")
    };
    let fast = starts(Span::ZERO);
    assert!(fast.len() > 300);
    assert_eq!(fast, starts(Span::from_secs(100)));
}

/// Erlang's loss formula holds for Poisson arrivals and any distribution of the holding time.
#[test]
fn arrivals_without_a_place_are_those_of_erlangs_formula() {
    let (places, service) = (10, Span::from_ms(100 - ROUND_TRIP_MS));
    let (mut turned_away, mut arrived) = (0, 0);
    let simulation = run(plan(arriving(places, Spacing::Poisson), service, Span::from_secs(1000)));
    for (attempts, attempt) in
        column(&simulation, "attempts").iter().zip(column(&simulation, "attempt"))
    {
        arrived += 1;
        if *attempts == 0.0 {
            turned_away += 1;
            assert_eq!(attempt, 0.0);
        }
    }
    // 100 a second for 0.1 s each: on average, ten places are asked for.
    let offered = 10.0;
    let blocked = (1..=places).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    assert!((blocked - 0.2146f64).abs() < 1e-4, "{blocked}");
    let share = f64::from(turned_away) / f64::from(arrived);
    // Blocked arrivals come in bursts, so the deviation is about twice that of independent ones.
    let deviation = 2.0 * (blocked * (1.0 - blocked) / f64::from(arrived)).sqrt();
    assert!((share - blocked).abs() < 4.0 * deviation, "{share}, {blocked}");
}

#[test]
fn a_number_of_queries_is_for_all_places_together() {
    let asking = Client { warm_up: 5, queries: Some(20), ..arriving(8, Spacing::Even) };
    let simulation = run(plan(asking, Span::ZERO, Span::from_secs(100)));
    assert_eq!(simulation.stopped(), Stopped::Done);
    assert_eq!(column(&simulation, "index"), (0..25).map(f64::from).collect::<Vec<_>>());
    assert_eq!(column(&simulation, "measured").iter().sum::<f64>(), 20.0);
    // A round trip takes four arrivals and a little: five places are enough, and are used in turn.
    assert_eq!(column(&simulation, "worker").iter().copied().fold(0.0, f64::max), 4.0);
    // The last arrives at 240 ms.
    let end = simulation.now().as_secs_f64();
    assert!((end - 0.280).abs() < 1e-4, "{end}");
}

#[test]
fn impossible_arrivals_are_refused() {
    let refused = |client| {
        let plan = plan(client, Span::ZERO, Span::from_secs(1));
        Simulation::new(plan).expect_err("it is impossible").to_string()
    };
    let mut client = arriving(1, Spacing::Even);
    let still = Arrivals { interval: Span::ZERO, spacing: Spacing::Even };
    assert!(refused(Client { arrivals: Some(still), ..client.clone() }).contains("interval"));
    client.think_mean = Span::from_ms(1);
    assert!(refused(client).contains("think_mean"));
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}
