//! Disciplines from outside this crate: settings that can stand wherever built-in ones can.
//!
//! Built-in disciplines are generic over the packet, and compiled for each packet type. A
//! discipline from outside is compiled once. It therefore gets an [`Item`] with everything that a
//! queue needs to know about a packet, and the packet itself is kept beside it until the item comes
//! out again. One that only decides about packets needs none of this: see [`Decider`].

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use narrows_units::settings::Given;
use narrows_units::{MaybeTime, Time};

use crate::{
    Ack, AnyConfig, AnyQdisc, AverageQueue, Backlog, Coming, Counters, Decider, Dropped, Ecn,
    FullQueue, Packet, Protocol, Qdisc, ShortQueue, Verdict, Watched,
};

/// A discipline from outside: its name and settings, and how to create it.
///
/// A plan that was read from a file has no more than the name and the settings. Whoever has the
/// discipline puts it in with [`AnyConfig::bind`].
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Custom {
    /// Its name.
    name: String,
    /// Its settings, in the order in which they were given.
    #[cfg_attr(feature = "serde", serde(default))]
    settings: Vec<Given>,
    #[cfg_attr(feature = "serde", serde(skip))]
    make: Option<Make>,
}

/// What creates it from a seed.
#[derive(Clone)]
enum Make {
    Any(Arc<MakeOf<dyn Qdisc<Item> + Send + Sync>>),
    Short { make: Arc<MakeOf<dyn Decider>>, limit: u32, releases: bool },
    Full(Arc<MakeOf<dyn Watched>>),
}

type MakeOf<T> = dyn Fn(u64) -> Box<T> + Send + Sync;

impl AnyConfig {
    /// Wraps a discipline from outside. `make` returns an empty one, whose random numbers follow
    /// from the seed that it gets.
    ///
    /// A discipline that is generic over the packet can be used unchanged.
    pub fn custom<Q: Qdisc<Item> + Send + Sync + 'static>(
        name: &str,
        make: impl Fn(u64) -> Q + Send + Sync + 'static,
    ) -> Self {
        Self::custom_boxed(name, move |seed| Box::new(make(seed)))
    }

    /// Does the same for a function that chooses among several types.
    pub fn custom_boxed(
        name: &str,
        make: impl Fn(u64) -> Box<dyn Qdisc<Item> + Send + Sync> + Send + Sync + 'static,
    ) -> Self {
        Self::made(name, Make::Any(Arc::new(make)))
    }

    /// Wraps decisions from outside about a queue that is first in, first out, and holds at most
    /// `limit` packets. `releases`: whether [`Decider::release`] decides anything.
    pub fn short(
        name: &str,
        limit: u32,
        releases: bool,
        make: impl Fn(u64) -> Box<dyn Decider> + Send + Sync + 'static,
    ) -> Self {
        Self::made(name, Make::Short { make: Arc::new(make), limit, releases })
    }

    /// Wraps what keeps the handles of the packets of a queue.
    pub fn full(
        name: &str,
        make: impl Fn(u64) -> Box<dyn Watched> + Send + Sync + 'static,
    ) -> Self {
        Self::made(name, Make::Full(Arc::new(make)))
    }

    fn made(name: &str, make: Make) -> Self {
        Self::Custom(Custom { name: name.into(), settings: Vec::new(), make: Some(make) })
    }

    /// Returns the name of a discipline from outside that is only named, here or inside. No queue
    /// can be created before it is [bound](Self::bind).
    pub fn unbound(&self) -> Option<&str> {
        match self {
            Self::Custom(custom) if custom.make.is_none() => Some(&custom.name),
            _ => self.inner().into_iter().find_map(|(_, inner)| inner.unbound()),
        }
    }

    /// Replaces each discipline from outside that is only named, here or in a band or class, by
    /// what `find` returns for it.
    ///
    /// # Errors
    ///
    /// Returns the first error of `find`.
    pub fn bind<E>(&mut self, find: &mut dyn FnMut(&Custom) -> Result<Self, E>) -> Result<(), E> {
        match self {
            Self::Custom(custom) if custom.make.is_none() => *self = find(custom)?,
            _ => {
                for inner in self.inner_mut() {
                    inner.bind(find)?;
                }
            }
        }
        Ok(())
    }
}

impl Custom {
    /// Returns the name that it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its settings.
    pub fn settings(&self) -> &[Given] {
        &self.settings
    }

    /// Returns whether it decides everything when a packet arrives.
    pub(crate) const fn decides_at_enqueue(&self) -> bool {
        matches!(self.make, Some(Make::Short { releases: false, .. }))
    }

    /// Returns whether it may want to know what segments acknowledge.
    pub(crate) const fn reads_acks(&self) -> bool {
        matches!(self.make, Some(Make::Any(_)))
    }

    /// Creates an empty queue for packets of any type.
    ///
    /// # Panics
    ///
    /// Panics if it is only named ([`AnyConfig::unbound`]).
    pub(crate) fn build<P: Packet>(&self, seed: u64) -> AnyQdisc<P> {
        match self.make.as_ref().expect("bound") {
            Make::Any(make) => AnyQdisc::Outside(Box::new(Outside {
                inner: make(seed),
                packets: Vec::new(),
                free: Vec::new(),
                dropped: Vec::new(),
            })),
            Make::Full(make) => AnyQdisc::Full(Box::new(FullQueue::new(make(seed)))),
            Make::Short { .. } => AnyQdisc::Short(Box::new(self.build_short(seed).expect("it is"))),
        }
    }

    /// Creates an empty queue that only decides about packets, if it is one.
    pub(crate) fn build_short<P: Packet>(&self, seed: u64) -> Option<ShortQueue<P>> {
        match self.make {
            Some(Make::Short { ref make, limit, releases }) => {
                Some(ShortQueue::new(make(seed), limit, releases))
            }
            _ => None,
        }
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.make, &other.make) {
            (Some(Make::Any(one)), Some(Make::Any(other))) => Arc::ptr_eq(one, other),
            (Some(Make::Short { make, .. }), Some(Make::Short { make: other, .. })) => {
                Arc::ptr_eq(make, other)
            }
            (Some(Make::Full(one)), Some(Make::Full(other))) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same && self.name == other.name && self.settings == other.settings
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({})", self.name)
    }
}

/// What a discipline from outside gets: everything that a queue needs to know about a packet.
#[derive(Debug)]
pub struct Item {
    /// Where the packet is kept.
    place: u32,
    bytes: u32,
    header_bytes: u32,
    ecn: Ecn,
    is_marked: bool,
    protocol: Protocol,
    ports: (u16, u16),
    dscp: u8,
    hosts: (u32, u32),
    flow_hash: u64,
    departure_at: MaybeTime,
}

impl Packet for Item {
    #[inline]
    fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    fn header_bytes(&self) -> u32 {
        self.header_bytes
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.ecn
    }

    #[inline]
    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
        self.is_marked = true;
    }

    #[inline]
    fn flow_hash(&self) -> u64 {
        self.flow_hash
    }

    #[inline]
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    #[inline]
    fn ports(&self) -> (u16, u16) {
        self.ports
    }

    #[inline]
    fn dscp(&self) -> u8 {
        self.dscp
    }

    #[inline]
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    #[inline]
    fn hosts(&self) -> (u32, u32) {
        self.hosts
    }

    #[inline]
    fn departure_at(&self) -> Option<Time> {
        self.departure_at.get()
    }
}

/// A discipline from outside, and the packets whose items it has.
pub struct Outside<P> {
    inner: Box<dyn Qdisc<Item> + Send + Sync>,
    packets: Vec<Option<P>>,
    /// Free places.
    free: Vec<u32>,
    dropped: Dropped<Item>,
}

impl<P: Packet> Outside<P> {
    fn keep(&mut self, packet: P) -> Item {
        let place = self.free.pop().unwrap_or_else(|| {
            self.packets.push(None);
            u32::try_from(self.packets.len() - 1).expect("2^32 packets would need 200 GB")
        });
        let item = Item {
            place,
            bytes: packet.bytes(),
            header_bytes: packet.header_bytes(),
            ecn: packet.ecn(),
            is_marked: false,
            protocol: packet.protocol(),
            ports: packet.ports(),
            dscp: packet.dscp(),
            hosts: packet.hosts(),
            flow_hash: packet.flow_hash(),
            departure_at: packet.departure_at().into(),
        };
        self.packets[place as usize] = Some(packet);
        item
    }

    fn take(&mut self, item: &Item) -> P {
        let packet = self.packets.get_mut(item.place as usize).and_then(Option::take);
        let mut packet = packet.expect("an item is there once, and belongs to one queue");
        self.free.push(item.place);
        if item.is_marked {
            packet.mark();
        }
        if item.dscp != packet.dscp() {
            packet.set_dscp(item.dscp);
        }
        packet
    }

    #[inline]
    fn hand_on(&mut self, dropped: &mut Dropped<P>) {
        if !self.dropped.is_empty() {
            self.hand_on_some(dropped);
        }
    }

    #[cold]
    fn hand_on_some(&mut self, dropped: &mut Dropped<P>) {
        let mut items = core::mem::take(&mut self.dropped);
        dropped.extend(items.drain(..).map(|(item, reason)| (self.take(&item), reason)));
        self.dropped = items;
    }
}

impl<P: Packet> Qdisc<P> for Outside<P> {
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let item = self.keep(packet);
        let verdict = self.inner.enqueue(now, item, &mut self.dropped);
        self.hand_on(dropped);
        verdict
    }

    fn announce(&mut self, ack: Option<&Ack>) {
        self.inner.announce(ack);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        let item = self.inner.dequeue(now, &mut self.dropped);
        self.hand_on(dropped);
        item.map(|item| self.take(&item))
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        self.inner.ready_at(now)
    }

    fn head(&self) -> Option<&P> {
        let item = self.inner.head()?;
        self.packets.get(item.place as usize)?.as_ref()
    }

    fn average_queue(&self) -> Option<AverageQueue> {
        self.inner.average_queue()
    }

    fn prefetch(&self, coming: Coming<'_, P>) {
        match coming {
            Coming::Enqueue(hashes) => self.inner.prefetch(Coming::Enqueue(hashes)),
            Coming::Dequeue(show) => self.inner.prefetch(Coming::Dequeue(&mut |item: &Item| {
                if let Some(Some(packet)) = self.packets.get(item.place as usize) {
                    show(packet);
                }
            })),
        }
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl<P> fmt::Debug for Outside<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::{self, Classes};
    use crate::codel;
    use crate::fifo::{Pfifo, PfifoConfig};
    use crate::fq_codel::{self, FqCodel};
    use crate::laws;
    use crate::prio;
    use crate::red;
    use crate::traffic::{TestPacket, Whim};
    use crate::{Discipline, DropReason, Filter};
    use alloc::vec;

    fn ecn() -> fq_codel::Config {
        fq_codel::Config { ecn: true, limit: 40, flows: 16, ..fq_codel::Config::default() }
    }

    /// Returns a built-in discipline wrapped as one from outside.
    fn outside() -> AnyConfig {
        AnyConfig::custom("mine", |seed| FqCodel::new(ecn(), seed))
    }

    #[test]
    fn it_equals_its_clones_alone() {
        let config = outside();
        assert_eq!(config, config.clone());
        assert_ne!(config, outside());
        let config = Whim::config(false);
        assert_eq!(config, config.clone());
        assert_ne!(config, Whim::config(false));
    }

    #[test]
    fn a_discipline_from_outside_obeys_the_laws() {
        laws::check(|| outside().build(1));
        laws::check(|| Whim::config(false).build(1));
        laws::check(|| Whim::config(true).build(1));
    }

    #[test]
    fn decisions_about_arrivals_alone_need_no_event_for_a_departure() {
        for releases in [false, true] {
            let config = Whim::config(releases);
            let early = config.build_at_enqueue::<TestPacket>(1).is_some();
            assert_eq!((config.decides_at_enqueue(), early), (!releases, !releases));
            assert!(!config.reads_acks() && outside().reads_acks());
        }
    }

    #[test]
    fn it_obeys_them_inside_another_too() {
        let band = |name: &str, queue, filters| prio::Band { name: name.into(), filters, queue };
        let dns = Filter { port: Some(53), ..Filter::default() };
        let codel = AnyConfig::from(codel::Config::default());
        let bands = vec![band("mine", outside(), vec![dns]), band("rest", codel, Vec::new())];
        let config = AnyConfig::from(prio::Config { bands });
        assert_eq!(config.check(), Ok(()));
        laws::check(|| config.build(1));
    }

    #[test]
    fn it_shows_what_the_discipline_inside_shows() {
        let packet = TestPacket { number: 7, ..TestPacket::default() };
        let mut fifo = AnyConfig::custom("fifo", |_| Pfifo::new(PfifoConfig::default())).build(1);
        assert_eq!(fifo.head(), None);
        fifo.enqueue(Time::ZERO, packet, &mut Vec::new());
        assert_eq!(fifo.head(), Some(&packet));
        assert_eq!((fifo.ready_at(Time::ZERO), fifo.average_queue()), (None, None));
        // 1000 bytes at 1 Mbit/s take 8 ms, and the burst has room for 1500.
        let all = classes::Class {
            name: "all".into(),
            filters: Vec::new(),
            rate: narrows_units::Rate::from_bps(1_000_000),
            burst: Some(narrows_units::Bytes::new(1500)),
            queue: AnyConfig::from(PfifoConfig::default()),
        };
        let shaped = classes::Config { classes: vec![all] };
        let mut shaped =
            AnyConfig::custom("shaped", move |seed| Classes::new(&shaped, seed)).build(1);
        for _ in 0..2 {
            shaped.enqueue(Time::ZERO, packet, &mut Vec::new());
        }
        assert_eq!(shaped.dequeue(Time::ZERO, &mut Vec::new()), Some(packet));
        assert_eq!(shaped.dequeue(Time::ZERO, &mut Vec::new()), None);
        // The second packet lacks 500 bytes.
        let in_4_ms = Time::ZERO + narrows_units::Span::from_ms(4);
        assert_eq!(shaped.ready_at(Time::ZERO), Some(in_4_ms));
        let red = red::linux::Config::default();
        let mut red = AnyConfig::custom("red", move |seed| red.build(seed)).build(1);
        red.enqueue(Time::ZERO, packet, &mut Vec::new());
        assert_eq!(red.average_queue(), Some(AverageQueue::Bytes(0.0)));
    }

    #[test]
    fn it_does_to_packets_what_it_does_to_its_items() {
        let mut ours = FqCodel::<TestPacket>::new(ecn(), 3);
        let mut theirs = outside().build::<TestPacket>(3);
        let (mut dropped, mut also_dropped) = (Vec::new(), Vec::new());
        let mut now = Time::ZERO;
        for number in 0..5_000 {
            now += narrows_units::Span::from_ms(9);
            let flow = (number % 7) as u8;
            let ecn = [Ecn::Ect0, Ecn::NotEct][usize::from(flow) % 2];
            let packet = TestPacket { number, flow, ecn, ..TestPacket::default() };
            let verdicts = [
                ours.enqueue(now, packet, &mut dropped),
                theirs.enqueue(now, packet, &mut also_dropped),
            ];
            assert_eq!(verdicts[0], verdicts[1]);
            if number % 9 != 0 {
                let packets =
                    [ours.dequeue(now, &mut dropped), theirs.dequeue(now, &mut also_dropped)];
                assert_eq!(packets[0], packets[1]);
            }
        }
        assert_eq!(dropped, also_dropped);
        assert!(dropped.iter().any(|(_, reason)| *reason == DropReason::Early));
        assert!(ours.counters().marked_packets() > 0, "nothing was marked, so nothing was tested");
        assert_eq!(ours.counters(), theirs.counters());
    }
}
