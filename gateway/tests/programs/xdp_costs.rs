//! What the XDP program's verdicts cost, by `bpf_prog_run`. Needs root; prints SKIP otherwise.

use crate::common::frames::*;
use crate::common::packets::Segment;
use crate::common::programs::programs;
use narrows_gateway::kernel::types::flow;

/// The cost of each verdict, on stderr with `--nocapture`: the median of single runs, each with its
/// own frame and entry, minus the cost of a frame that is not for the gateway.
#[test]
#[ignore = "it prints costs and asserts nothing; run it with --ignored --nocapture"]
fn costs() {
    let programs = programs!("costs");
    let reply = programs.ring_store(&reply_bytes(1400));
    let median = |mut times: Vec<u128>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let mut nobody = Client::new(&programs, false, false).saying.syn().packet();
    nobody[9] = 17;
    let nobody = Client::new(&programs, false, false).frame(&nobody);
    let nothing =
        median((0..4000).map(|_| programs.xdp_time(&nobody, 1).as_nanos()).collect::<Vec<_>>());
    let row =
        |what: &str, ipv6: bool, state: u8, length: u16, say: &dyn Fn(&Client<'_>) -> Segment| {
            programs.remove_flows();
            let clients: Vec<_> = (0..4000)
                .map(|i| {
                    let mut client = Client::new(&programs, ipv6, false);
                    client.saying.client.set_port(2000 + i);
                    let client = client.open();
                    if state > 0 {
                        let client = client.asked();
                        let entry = client.flow().unwrap();
                        let entry = flow { state, reply_length: length, stored: reply, ..entry };
                        programs.set_flow(&client.key(), &entry);
                        return client;
                    }
                    client
                })
                .collect();
            let frames: Vec<_> =
                clients.iter().map(|client| client.frame(&say(client).packet())).collect();
            let times = frames.iter().map(|frame| programs.xdp_time(frame, 1).as_nanos());
            let took = median(times.collect());
            eprintln!("{what:32} {:4} ns", took.saturating_sub(nothing));
        };
    eprintln!("a frame that is not for the gateway, with the call  {nothing:4} ns");
    for ipv6 in [false, true] {
        eprintln!("IPv{}", if ipv6 { 6 } else { 4 });
        row("SYN", ipv6, 0, 0, &|c| c.saying.syn());
        row("the handshake's ACK", ipv6, 0, 0, &|c| c.saying.ack(0, 0));
        row("query", ipv6, 0, 0, &|c| c.saying.data());
        row("query again", ipv6, QUERY, 0, &|c| c.saying.data());
        row("the reply's ACK", ipv6, REPLIED, 100, &|c| c.saying.ack(c.saying.length(), 100));
        row("FIN", ipv6, IDLE, 100, &|c| c.saying.fin(c.saying.length(), 100));
        row("FIN that answers ours", ipv6, CLOSING, 100, &|c| c.saying.fin(c.saying.length(), 101));
        row("the last ACK", ipv6, CLOSING, 100, &|c| c.saying.ack(c.saying.length(), 101));
        row("100 bytes of a reply again", ipv6, REPLIED, 100, &|c| c.saying.data());
        row("1400 bytes of a reply again", ipv6, REPLIED, 1400, &|c| c.saying.data());
        row("ACK of nothing known", ipv6, 0, 0, &|c| c.saying.ack(9, 9));
        row("query with a forged cookie", ipv6, 0, 0, &|c| c.saying.data_at(0, 9, &c.saying.query));
    }
}
