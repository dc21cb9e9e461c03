//! The table of flows: connections, and the datagrams between a client and a server.

use std::ops::Range;

use narrows_apps::flow_samples::{Sample, Sampled};
use narrows_apps::flow_states::{Observed, Seen};
use narrows_apps::goodput::Delivered;
use narrows_apps::{Association, Datagram, Socket};
use narrows_client::{ControlInfo, TcpInfo};
use narrows_transport::FlowSample;
use narrows_transport::flow_sample::{AVOIDANCE, CWR, LOSS, RECOVERY, SLOW_START};
use narrows_transport::tcp::Counters;
use narrows_units::{Rate, Span, Time};

use crate::connection::Connection;
use crate::datagrams::Link;
use crate::quic;

/// All flows, by number. Numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    free: Vec<u32>,
    /// The rows of the table `flows`.
    pub(crate) listed: Vec<Listed>,
    /// For each application: what the clients of its connections with messages have received on
    /// those that are over.
    received_by_ended: Vec<u64>,
}

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Tells apart the flows that had the same number.
    pub(crate) generation: u8,
    /// The application at each end, and that application's number for the flow.
    pub(crate) owners: [u32; 2],
    pub(crate) numbers: [u32; 2],
    /// The nodes of its ends.
    pub(crate) nodes: [usize; 2],
    /// The path from the second end to the first: an index into the plan's.
    pub(crate) back: usize,
    pub(crate) what: What,
}

/// What a flow is.
#[derive(Debug)]
pub(crate) enum What {
    Over,
    Tcp(Box<Connection>),
    Datagrams(Box<Link>),
    Quic(Box<quic::Connection>),
}

/// A row of the table `flows`.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) flow: u32,
    pub(crate) name: String,
    pub(crate) start: Time,
}

impl Flows {
    /// Adds a flow; its generation is set here. Flows that are added before any has ended have
    /// consecutive numbers.
    pub(crate) fn add(&mut self, flow: Flow) -> Socket {
        let number = self.free.pop().unwrap_or(self.flows.len() as u32);
        match self.flows.get_mut(number as usize) {
            Some(before) => {
                let generation = before.generation.wrapping_add(1);
                *before = Flow { generation, ..flow };
            }
            None => self.flows.push(Flow { generation: 0, ..flow }),
        }
        let generation = self.flows[number as usize].generation;
        Socket { end: 2 * number, generation }
    }

    /// Frees the number of a connection that is over.
    pub(crate) fn free(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let application = flow.owners[0] as usize;
        self.free.push(number);
        let What::Tcp(connection) = std::mem::replace(&mut flow.what, What::Over) else { return };
        let applications = self.received_by_ended.len().max(application + 1);
        self.received_by_ended.resize(applications, 0);
        self.received_by_ended[application] += connection.sides[0].received;
    }

    /// Returns the flow with this number.
    pub(crate) fn get(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Flow {
        &mut self.flows[number as usize]
    }

    /// Returns the socket of an end.
    pub(crate) fn socket(&self, flow: u32, side: usize) -> Socket {
        Socket { end: 2 * flow + side as u32, generation: self.get(flow).generation }
    }

    /// Returns the connection of a socket, or `None` if it is over.
    pub(crate) fn connection(&self, socket: Socket) -> Option<&Connection> {
        let flow = self.flows.get(socket.flow() as usize)?;
        match &flow.what {
            What::Tcp(connection) if flow.generation == socket.generation => Some(connection),
            _ => None,
        }
    }

    pub(crate) fn connection_mut(&mut self, socket: Socket) -> Option<&mut Connection> {
        let flow = self.flows.get_mut(socket.flow() as usize)?;
        match &mut flow.what {
            What::Tcp(connection) if flow.generation == socket.generation => Some(connection),
            _ => None,
        }
    }

    /// Returns the QUIC connection of a socket, or `None` if it no longer has one.
    pub(crate) fn quic(&self, socket: Socket) -> Option<&quic::Connection> {
        let flow = self.flows.get(socket.flow() as usize)?;
        match &flow.what {
            What::Quic(connection) if flow.generation == socket.generation => Some(connection),
            _ => None,
        }
    }

    pub(crate) fn quic_mut(&mut self, socket: Socket) -> Option<&mut quic::Connection> {
        let flow = self.flows.get_mut(socket.flow() as usize)?;
        match &mut flow.what {
            What::Quic(connection) if flow.generation == socket.generation => Some(connection),
            _ => None,
        }
    }

    /// Returns the datagrams of a flow.
    pub(crate) fn link_mut(&mut self, number: u32) -> Option<&mut Link> {
        match &mut self.flows.get_mut(number as usize)?.what {
            What::Datagrams(link) => Some(link),
            _ => None,
        }
    }
}

/// What has not arrived, and what has.
impl Flows {
    /// Returns the datagrams that were sent before `until` and have not arrived, each with its
    /// application.
    pub(crate) fn missing(&self, until: Time) -> Vec<(u32, Datagram)> {
        let mut found = Vec::new();
        for (number, flow) in self.flows.iter().enumerate() {
            let What::Datagrams(link) = &flow.what else { continue };
            let association = Association::from(self.socket(number as u32, 0));
            let sent = link.under_way.iter().filter(|(_, (at, _))| *at < until);
            found.extend(sent.map(|(&(socket, goes_back, _), &(_, message))| {
                (flow.owners[0], Datagram { association, socket, goes_back, message })
            }));
        }
        found
    }

    /// Returns the connections of the table `flows`.
    fn rows(&self, rows: Range<usize>) -> impl Iterator<Item = &Connection> {
        self.listed[rows].iter().filter_map(|listed| match &self.get(listed.flow).what {
            What::Tcp(connection) => Some(&**connection),
            _ => None,
        })
    }
}

impl Delivered for Flows {
    fn received_by_rows(&self, rows: Range<usize>) -> u64 {
        self.rows(rows).map(|connection| connection.sides[1].received).sum()
    }

    fn received_by_clients(&self, mut report: impl FnMut(u32, u64)) {
        for (application, &bytes) in self.received_by_ended.iter().enumerate() {
            report(application as u32, bytes);
        }
        for flow in &self.flows {
            if let What::Tcp(connection) = &flow.what
                && connection.has_messages
            {
                report(flow.owners[0], connection.sides[0].received);
            }
        }
    }
}

impl Sampled for Flows {
    fn sample(&self) -> impl Iterator<Item = Sample> {
        self.rows(0..self.listed.len()).map(|connection| {
            let info = connection.info(0);
            Sample {
                received: connection.sides[1].received,
                counters: counters(&info),
                srtt: info.rtt.map(|rtt| Span::from_ns(rtt.as_nanos() as u64)),
            }
        })
    }
}

/// TCP alone: QUIC's library does not tell the state of a connection.
impl Observed for Flows {
    fn observe(&self, wanted: &[bool], mut report: impl FnMut(Seen<'_>)) {
        let listed = self.listed.iter().map(|listed| (listed.flow, &*listed.name));
        let others = (0..self.flows.len() as u32).map(|number| (number, ""));
        for (number, name) in listed.chain(others) {
            let flow = self.get(number);
            let application = flow.owners[0];
            let What::Tcp(connection) = &flow.what else { continue };
            let sender = usize::from(connection.has_messages);
            if !wanted[application as usize]
                || connection.listed == name.is_empty()
                || connection.established_at.is_none()
            {
                continue;
            }
            if let Some(end) = &connection.sides[sender].end
                && let Some(sample) = sample(&end.info(), end.control())
            {
                report(Seen {
                    application,
                    identity: (number, flow.generation),
                    name,
                    sender: sample,
                    received: connection.sides[1 - sender].received,
                });
            }
        }
    }
}

/// Returns what the kernel knows of a sender's window and path; `None`: it has no socket.
fn sample(info: &TcpInfo, control: ControlInfo) -> Option<FlowSample> {
    let segment = info.segment?;
    let (cwnd, ssthresh) = (info.cwnd?, info.ssthresh?);
    let bytes = |segments: u32| u64::from(segments) * u64::from(segment);
    let span = |rtt: std::time::Duration| Span::from_ns(rtt.as_nanos() as u64);
    Some(FlowSample {
        cwnd: bytes(cwnd),
        ssthresh: (ssthresh < UNBOUNDED).then(|| bytes(ssthresh)),
        segment,
        srtt: info.rtt.map(span),
        min_rtt: info.min_rtt.map(span),
        pacing_rate: info.pacing_rate.and_then(|rate| Rate::from_bps(rate.saturating_mul(8))),
        in_flight: bytes(info.in_flight?),
        retransmissions: info.again.unwrap_or(0).into(),
        state: control.phase.unwrap_or(match info.control_state? {
            2 => CWR,
            3 => RECOVERY,
            4 => LOSS,
            _ if cwnd < ssthresh => SLOW_START,
            _ => AVOIDANCE,
        }),
        alpha: control.alpha,
    })
}

/// `TCP_INFINITE_SSTHRESH`.
const UNBOUNDED: u32 = 0x7fff_ffff;

/// Returns TCP's counters. Of those that a plan's tables have, the kernel tells some; the others are
/// zero.
pub(crate) fn counters(info: &TcpInfo) -> Counters {
    Counters {
        segments_sent: info.segments_out.unwrap_or(0).into(),
        segments_retransmitted: info.again.unwrap_or(0).into(),
        ..Counters::default()
    }
}
