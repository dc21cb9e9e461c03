//! Files are what they claim to be, as dissected by Wireshark.
//!
//! Without tshark, these tests print SKIP, unless CI is set: there they must run.

mod common;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use common::{DOWN, UP, captured, exchange, messages, plan};
use narrows_capture::Writer;
use narrows_qdisc::Ecn;
use narrows_sim::captured::{Captured, Frame};
use narrows_sim::plan::Plan;
use narrows_sim::ports;
use narrows_sim::tcp::{
    AccurateEcn, EcnBytes, FastOpenOption, Flags, Order, Segment, Seq, SynOptions,
};
use narrows_units::Time;

#[test]
fn an_exchange_has_nothing_to_complain_of() {
    let Some(file) = capture("exchange", &plan(), &exchange()) else { return };
    // Warnings and worse, except those about what really happened: losses before the link, and
    // retransmissions.
    let complaints = "_ws.expert.severity >= 0x600000 && !tcp.analysis.lost_segment \
        && !tcp.analysis.out_of_order";
    assert_eq!(fields(&file, complaints, &["frame.number", "_ws.expert.message"]), NOTHING);
    assert_eq!(fields(&file, BROKEN, &["frame.number", "_ws.expert.message"]), NOTHING);
    // tshark has verified every checksum: 1 is "good".
    assert_eq!(fields(&file, "ip.checksum.status == 1", &["frame.number"]).len(), exchange().len());
    let verified = "tcp.checksum.status == 1 || udp.checksum.status == 1";
    assert_eq!(fields(&file, verified, &["frame.number"]).len(), exchange().len());
}

#[test]
fn segments_are_dissected_as_they_were() {
    let Some(file) = capture("segments", &plan(), &exchange()) else { return };
    let names = [
        "frame.interface_name",
        "frame.time_epoch",
        "ip.src",
        "tcp.srcport",
        "ip.dst",
        "tcp.dstport",
        "ip.len",
        "ip.dsfield.ecn",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.flags",
        "tcp.window_size_value",
        "tcp.len",
        "tcp.options.timestamp.tsval",
        "tcp.options.timestamp.tsecr",
        "tcp.options.mss_val",
        "tcp.options.wscale.shift",
        "tcp.options.sack.count",
    ];
    let expected: Vec<String> = exchange()
        .iter()
        .filter_map(|captured| match captured.frame {
            Frame::Tcp(segment) => {
                let down = captured.link as usize == DOWN;
                let (server, client) = ports::tcp(0);
                let ends = [format!("10.0.0.1|{server}"), format!("10.0.0.3|{client}")];
                let [from, to] = if down { [0, 1] } else { [1, 0] };
                let link = if down { "forward" } else { "backward" };
                let ns = captured.at.as_ps() / 1_000;
                let (tsval, tsecr) = segment.timestamps?;
                let sack = segment.sack.len();
                Some(format!(
                    "bottleneck.{link}|{}.{:09}|{}|{}|{}|{}|{}|{}|0x{:04x}|{}|{}|{tsval}|{tsecr}|{}|{}|{}",
                    ns / 1_000_000_000,
                    ns % 1_000_000_000,
                    ends[from],
                    ends[to],
                    20 + segment.header_bytes() + segment.len,
                    segment.ecn as u8,
                    segment.seq.0,
                    segment.ack.0,
                    segment.flags.0,
                    segment.window,
                    segment.len,
                    segment.syn.map_or(String::new(), |syn| syn.mss.to_string()),
                    segment.syn.and_then(|syn| syn.window_scale).map_or(String::new(), |n| n.to_string()),
                    if sack == 0 { String::new() } else { sack.to_string() },
                ))
            }
            Frame::Udp { .. } | Frame::TooBig { .. } | Frame::Arp { .. } => None,
        })
        .collect();
    assert_eq!(fields(&file, "tcp", &names), expected);
}

#[test]
fn messages_are_dissected_as_they_were() {
    let Some(file) = capture("messages", &plan(), &exchange()) else { return };
    let names =
        ["ip.len", "udp.srcport", "udp.dstport", "dns.id", "dns.flags.response", "dns.qry.name"];
    assert_eq!(
        fields(&file, "dns", &names),
        [
            "70|49152|53|0x0001|0|q0000000.narrows.example",
            "70|49154|53|0x0009|0|q0000001.narrows.example",
            "100|53|49152|0x0001|1|q0000000.narrows.example",
            "128|49156|53|0x07c9|0|q000249.narrows.example",
            "128|49156|53|0x07ca|0|q000249.narrows.example",
            "468|53|49156|0x07ca|1|q000249.narrows.example",
            "100|53|49154|0x0009|1|q0000001.narrows.example",
        ]
    );
    // Replies find their queries, and padding is seen as such.
    assert_eq!(fields(&file, "dns.response_to", &["dns.response_to"]).len(), 3);
    assert_eq!(fields(&file, "dns.opt.code == 12", &["dns.opt.len"]), ["44", "44", "0"]);
}

/// RFC 7413, 4.1.1 and RFC 9768, 3.1: a SYN with a cookie, data, and all three ECN flags.
#[test]
fn syns_have_fast_open_and_accurate_ecn() {
    let options = |fast_open| SynOptions {
        mss: 1460,
        window_scale: Some(7),
        sack_permitted: true,
        fast_open: Some(fast_open),
    };
    let syn = |fast_open, flags, len| Segment {
        flags: Flags::SYN.with(flags),
        len,
        ecn: Ecn::Ect0,
        timestamps: Some((1, 0)),
        syn: Some(options(fast_open)),
        ..Segment::default()
    };
    let asks = Flags::ECE.with(Flags::CWR).with(Flags::AE);
    let packets: Vec<_> = [
        syn(FastOpenOption::Request, asks, 0),
        syn(FastOpenOption::Cookie, Flags::ECE.with(Flags::CWR), 36),
        syn(FastOpenOption::Cookie, Flags::ACK.with(Flags::AE), 0),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, segment)| captured(Time::from_ps(n as u64), false, n as u32, Frame::Tcp(segment)))
    .collect();
    let Some(file) = capture("syns", &plan(), &packets) else { return };
    let names = ["ip.len", "ip.dsfield.ecn", "tcp.flags", "tcp.len", "tcp.options.tfo.cookie"];
    assert_eq!(
        fields(&file, "tcp.checksum.status == 1", &names),
        [
            "64|2|0x01c2|0|".to_owned(),
            "108|2|0x00c2|36|0000000000000000".to_owned(),
            "72|2|0x0112|0|0000000000000000".to_owned(),
        ]
    );
    assert_eq!(fields(&file, "tcp.options.tfo.request", &["frame.number"]), ["1"]);
    assert_eq!(fields(&file, BROKEN, &["frame.number"]), NOTHING);
}

/// RFC 9768, 3.2: AE among the flags, and the option in both orders.
#[test]
fn segments_have_accurate_ecn() {
    let segment = |order, fields, flags| Segment {
        seq: Seq(1),
        ack: Seq(1),
        flags: Flags::ACK.with(flags),
        ecn: Ecn::Ect1,
        timestamps: Some((1, 1)),
        accurate: Some(AccurateEcn::new(
            order,
            EcnBytes { ect0: 1, ce: 0x12_3456, ect1: 0xff_ffff },
            fields,
        )),
        ..Segment::default()
    };
    let packets: Vec<_> = [
        segment(Order::Zero, 3, Flags::AE),
        segment(Order::One, 2, Flags::AE.with(Flags::ECE)),
        segment(Order::One, 3, Flags::CWR),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, segment)| captured(Time::from_ps(n as u64), false, n as u32, Frame::Tcp(segment)))
    .collect();
    let Some(file) = capture("accurate", &plan(), &packets) else { return };
    let counters = ["ee0b", "eceb", "ee1b"].map(|name| format!("tcp.options.acc_ecn.{name}"));
    let mut names = vec!["ip.len", "ip.dsfield.ecn", "tcp.flags"];
    names.extend(counters.iter().map(String::as_str));
    assert_eq!(
        fields(&file, "tcp.checksum.status == 1", &names),
        [
            "64|1|0x0110|1|1193046|16777215".to_owned(),
            "60|1|0x0150||1193046|16777215".to_owned(),
            "64|1|0x0090|1|1193046|16777215".to_owned(),
        ]
    );
    assert_eq!(fields(&file, BROKEN, &["frame.number"]), NOTHING);
}

#[test]
fn no_port_is_taken_for_another_protocol() {
    // One segment each of connections across the whole range of ports, with payloads of zeros.
    let plan = plan();
    let segment = Segment {
        seq: Seq(1),
        ack: Seq(1),
        len: 200,
        flags: Flags::ACK,
        ecn: Ecn::Ect0,
        timestamps: Some((1, 1)),
        ..Segment::default()
    };
    let packets: Vec<_> = (0..9_000)
        .chain((9_000..81_000).step_by(97))
        .map(|connection| {
            let at = Time::from_ps(u64::from(connection) * 1_000_000);
            captured(at, false, connection, Frame::Tcp(segment))
        })
        .collect();
    let Some(file) = capture("ports", &plan, &packets) else { return };
    let protocols = fields(&file, "frame", &["frame.protocols"]);
    assert_eq!(protocols.len(), packets.len());
    for (protocols, packet) in protocols.iter().zip(&packets) {
        assert_eq!(protocols, "eth:ethertype:ip:tcp:data", "{packet:?}");
    }
    assert_eq!(fields(&file, BROKEN, &["frame.number", "frame.protocols"]), NOTHING);
}

/// Writes both links' packets to a file for tshark; `None` if there is no tshark.
fn capture(name: &str, plan: &Plan, packets: &[Captured]) -> Option<PathBuf> {
    if Command::new("tshark").arg("--version").output().is_err() {
        let hint = "apt-get install tshark";
        assert!(std::env::var_os("CI").is_none(), "tshark must be there in CI: {hint}");
        // This does not use `eprintln!`, because the test harness hides its output.
        let _ = writeln!(std::io::stderr(), "SKIP tshark::{name}: no tshark; {hint}");
        return None;
    }
    let mut writer =
        Writer::new(plan, &[DOWN, UP], messages(), None, Vec::new()).expect("a vector");
    for packet in packets {
        writer.packet(packet).expect("a packet of the plan");
    }
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
    std::fs::write(&file, writer.finish().expect("a vector")).expect("a writable folder");
    Some(file)
}

/// The named fields of all frames that `filter` lets through, a line each, with `|` in between.
fn fields(file: &PathBuf, filter: &str, names: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    command.args(["-E", "separator=|", "-E", "occurrence=f"]);
    for check in ["ip", "tcp", "udp"] {
        command.arg("-o").arg(format!("{check}.check_checksum:TRUE"));
    }
    for name in names {
        command.args(["-e", name]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What no file may contain: malformed packets, errors, and wrong checksums.
const BROKEN: &str = "_ws.malformed || _ws.expert.severity == 0x800000 || ip.checksum.status == 0 \
    || tcp.checksum.status == 0 || udp.checksum.status == 0";

const NOTHING: [&str; 0] = [];
