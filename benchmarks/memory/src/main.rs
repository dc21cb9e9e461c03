//! Counts the heap that the simulator uses for flows, segments in flight, and packets.
//!
//! Each figure is the difference between two runs that differ in one thing alone. The heap is
//! measured half a second after the start. It is the bytes asked of the allocator and not yet given
//! back, so the slack of growing buffers is included. Prints one JSON object.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use narrows_qdisc::fifo::PfifoConfig;
use narrows_qdisc::{codel, drr, red, sfq};
use narrows_sim::Simulation;
use narrows_sim::plan::{
    Application, Connection, Draw, Framing, Kind, Link, Opener, Modes, Path, Plan, Queue, on_off,
};
use narrows_sim::tcp;
use narrows_units::{Bytes, Rate, Span, Time};

fn main() {
    let few = Case { flows: 1_000, ..Case::IDLE };
    let many = Case { flows: 11_000, ..Case::IDLE };
    let flow = per(few, many, 10_000);

    // A hundred segments of each flow, sent and lost at once: the senders remember them, and no
    // queue or wire holds them.
    let nothing = Case { window: 0, ..Case::LOST };
    let segment = per(nothing, Case::LOST, Case::LOST.segments());
    let queued = per(Case::LOST, Case::QUEUED, Case::LOST.segments());
    let in_red = per(Case::LOST, Case { queue: red, ..Case::QUEUED }, Case::LOST.segments());
    let scheduled: String = SCHEDULED
        .iter()
        .map(|&(name, queue)| {
            let lost = Case { queue, scheduled: true, ..Case::LOST };
            let queued = Case { queue, scheduled: true, ..Case::QUEUED };
            let bytes = per(lost, queued, Case::LOST.segments());
            format!("\"bytes_per_packet_in_scheduled_{name}\": {bytes:.1}, ")
        })
        .collect();
    let wire = per(Case::LOST, Case::ON_THE_WIRE, Case::LOST.segments());
    println!(
        "{{\"bytes_per_flow\": {flow:.1}, \"bytes_per_segment_in_flight\": {segment:.1}, \
         \"bytes_per_queued_packet\": {queued:.1}, \"bytes_per_packet_in_red\": {in_red:.1}, \
         {scheduled}\"bytes_per_packet_on_the_wire\": {wire:.1}}}"
    );
}

/// A run: flows that open one after the other and send a window of segments.
#[derive(Clone, Copy)]
struct Case {
    flows: usize,
    /// The segments that each flow sends at once.
    window: u32,
    rate_gbps: f64,
    delay_s: u64,
    loss: f64,
    queue: fn(u32) -> Queue,
    /// Whether the queue holds the packets themselves.
    scheduled: bool,
    limit: u32,
}

/// Disciplines in the form that holds the packets themselves, each with room for a number of
/// packets.
const SCHEDULED: [(&str, fn(u32) -> Queue); 4] = [
    ("pfifo", pfifo),
    ("codel", |limit| Queue::Codel(codel::Config { limit, ..Default::default() })),
    ("drr", |limit| Queue::Drr(drr::plain::Config { limit, ..Default::default() })),
    ("sfq", |limit| Queue::Sfq(sfq::Config { limit, ..Default::default() })),
];

/// A RED that drops no packet.
fn red(limit: u32) -> Queue {
    Queue::Red1993(red::classic::Config {
        unit: red::classic::Unit::Packets,
        limit: u64::from(limit),
        min: f64::from(limit) / 2.0,
        max: f64::from(limit),
        ..Default::default()
    })
}

fn pfifo(limit: u32) -> Queue {
    Queue::Pfifo(PfifoConfig { limit })
}

impl Case {
    /// Every flow has sent one burst of ten segments and waits.
    const IDLE: Self = Self {
        flows: 0,
        window: 10,
        rate_gbps: 100.0,
        delay_s: 0,
        loss: 0.0,
        queue: pfifo,
        scheduled: false,
        limit: 1000,
    };
    /// All segments are lost at once.
    const LOST: Self = Self {
        flows: 100,
        window: 100,
        rate_gbps: 10.0,
        delay_s: 10,
        loss: 1.0,
        queue: pfifo,
        scheduled: false,
        limit: 1,
    };
    /// The segments wait in a queue. All that is kept of them counts: their place in it, and the
    /// packets.
    const QUEUED: Self = Self { rate_gbps: 1e-6, loss: 0.0, limit: 100_000, ..Self::LOST };
    /// The segments are on the wire; the queue never holds more than those of one flow.
    const ON_THE_WIRE: Self = Self { loss: 0.0, limit: 1000, ..Self::LOST };

    fn segments(self) -> usize {
        self.flows * self.window as usize
    }

    fn plan(self) -> Plan {
        let mut config = tcp::Config::profile("linux-6").expect("this profile exists");
        config.initial_window = self.window.max(1);
        config.skip_handshake = true;
        config.receive_buffer = Bytes::new(1 << 28);
        // Without a window to send, a flow sends one segment of one byte.
        let payload = u64::from(config.mss) * u64::from(self.window);
        let link = |name: &str, from, to, limit| Link {
            name: name.into(),
            from,
            to,
            rate: Rate::from_bps((self.rate_gbps * 1e9) as u64).expect("the rate is above zero"),
            delay: Span::from_ps(self.delay_s * 1_000_000_000_000 + 1_000_000),
            jitter: None,
            loss: self.loss.into(),
            dns_exempt: false,
            opportunities_ms: None,
            framing: Framing { overhead: 38, min: 84, queue_overhead: 14 },
            queue: (self.queue)(limit),
            ring: None,
            mtu: 1500,
            middlebox: None,
        };
        let spacing_ps = 400_000_000_000 / self.flows as u64;
        let flows = on_off::OnOff {
            connections: (0..self.flows)
                .map(|i| Connection {
                    name: format!("flows[{i}]"),
                    there: 0,
                    back: 1,
                    tcp: 0,
                    opener: Opener::Sender,
                    start: Time::from_ps(spacing_ps * i as u64),
                    stop: None,
                })
                .collect(),
            burst: Draw::Constant(Bytes::new(payload.max(1))),
            idle: Draw::Exponential { mean: Span::from_ps(1_000_000_000_000_000) },
            bursts: None,
        };
        Plan {
            seed: 1,
            end: Time::from_ps(100_000_000_000_000),
            end_when_done: false,
            event_limit: u64::MAX,
            nodes: vec!["sender".into(), "receiver".into()],
            links: vec![link("wan.forward", 0, 1, self.limit), link("wan.backward", 1, 0, 100_000)],
            tcp: vec![config],
            paths: vec![
                Path { from: 0, to: 1, links: vec![0] },
                Path { from: 1, to: 0, links: vec![1] },
            ],
            applications: vec![Application { name: "flows".into(), kind: Kind::OnOff(flows) }],
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
            modes: Modes {
                scheduled: if self.scheduled { vec![0, 1] } else { Vec::new() },
                ..Modes::default()
            },
        }
    }

    /// Returns the bytes on the heap half a second after the start, including the plan.
    fn heap(self) -> usize {
        let before = LIVE.load(Ordering::Relaxed);
        let mut simulation = Simulation::new(self.plan()).expect("the plan is possible");
        while simulation.now() < Time::from_ps(500_000_000_000) {
            if simulation.advance(1) {
                break;
            }
        }
        LIVE.load(Ordering::Relaxed) - before
    }
}

/// Returns the difference between two runs' heaps, divided by `count`.
fn per(without: Case, with: Case, count: usize) -> f64 {
    (with.heap() as f64 - without.heap() as f64) / count as f64
}

/// Bytes asked for and not yet given back.
static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is handed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}
