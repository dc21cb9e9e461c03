//! All built-in disciplines, one line each at the end of this file.
//!
//! To add a discipline, write a file with its settings ([`settings`](crate::settings)), its
//! properties ([`Discipline`]) and its behaviour ([`Qdisc`]), and add a line to the list. Programs
//! that use this crate find everything in [`AnyConfig::LISTED`]. narrows makes its configuration
//! language, that language's reference and its plots from it.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use narrows_units::{Rate, Time};

use crate::custom::{Custom, Outside};
use crate::full::FullQueue;
use crate::settings::{Kind, Rule, Setting, Table, Value};
use crate::short::ShortQueue;
use crate::{
    Ack, AverageQueue, Backlog, Coming, ConfigError, Counters, Discipline, Dropped, Levels, Packet,
    PacketView, Qdisc, Verdict, blue, cake, classes, codel, drr, dualpi2, fifo, fq, fq_codel,
    fq_pie, mix, pie, prio, red, sfq,
};

/// The entry of a discipline in the list.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name in configurations, such as `fq-codel`.
    pub name: &'static str,
    /// Its name in titles.
    pub label: &'static str,
    /// Whether it decides everything when a packet arrives.
    pub decides_at_enqueue: bool,
    /// Its settings.
    pub table: Table,
    /// Returns valid settings: the defaults, and examples for required settings.
    pub default: fn() -> AnyConfig,
}

impl Listed {
    const fn new<C: Discipline + Into<AnyConfig>>(
        name: &'static str,
        decides_at_enqueue: bool,
    ) -> Self {
        let default = || C::default().into();
        Self { name, label: C::LABEL, decides_at_enqueue, table: C::TABLE, default }
    }
}

/// The callback of [`AtEnqueue::visit`], which works with any discipline.
pub trait Visit<P: Packet> {
    /// Visits the discipline. `notices_idleness` is [`Discipline::NOTICES_IDLENESS`].
    fn visit<Q: Qdisc<P>>(self, queue: &mut Q, notices_idleness: bool);
}

/// Large state is on the heap; a FIFO's is not.
type Boxed<T> = Box<T>;
type Inline<T> = T;

/// The type of a discipline, given that of its settings.
type Of<C, P> = <C as Discipline>::Queue<P>;

/// Declares everything that knows all disciplines.
macro_rules! disciplines {
    (
        decide when a packet comes {
            $($early:ident($early_held:ident $early_config:ty) = $early_name:literal,)+
        }
        decide when a packet is to leave {
            $($late:ident($late_held:ident $late_config:ty) = $late_name:literal,)+
        }
    ) => {
        /// A discipline that is chosen at run time.
        pub enum AnyQdisc<P> {
            $(#[doc = concat!("`", $early_name, "`")] $early($early_held<Of<$early_config, P>>),)+
            $(#[doc = concat!("`", $late_name, "`")] $late($late_held<Of<$late_config, P>>),)+
            /// A discipline from outside this crate.
            Custom(Box<dyn Qdisc<P> + Send + Sync>),
            /// A discipline that was created by settings from outside this crate.
            Outside(Box<Outside<P>>),
            /// Decisions from outside this crate.
            Short(Box<ShortQueue<P>>),
            /// Choices from outside this crate.
            Full(Box<FullQueue<P>>),
        }

        /// A discipline that decides everything when a packet arrives.
        pub enum AtEnqueue<P> {
            $(#[doc = concat!("`", $early_name, "`")] $early($early_held<Of<$early_config, P>>),)+
            /// Decisions from outside this crate.
            Short(Box<ShortQueue<P>>),
        }

        /// The name and settings of a discipline.
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum AnyConfig {
            $(
                #[doc = concat!("`", $early_name, "`")]
                #[cfg_attr(feature = "serde", serde(rename = $early_name))]
                $early($early_config),
            )+
            $(
                #[doc = concat!("`", $late_name, "`")]
                #[cfg_attr(feature = "serde", serde(rename = $late_name))]
                $late($late_config),
            )+
            /// One from outside this crate.
            #[cfg_attr(feature = "serde", serde(rename = "plugin"))]
            Custom(Custom),
        }

        impl AnyConfig {
            /// All built-in disciplines, in the order of their documentation.
            pub const LISTED: &'static [Listed] = &[
                $(Listed::new::<$early_config>($early_name, true),)+
                $(Listed::new::<$late_config>($late_name, false),)+
            ];

            /// Returns whether every decision is made when a packet arrives. Packets then leave in
            /// order of arrival, at times that the caller can compute ahead.
            pub const fn decides_at_enqueue(&self) -> bool {
                match self {
                    $(Self::$early(_) => true,)+
                    $(Self::$late(_) => false,)+
                    Self::Custom(custom) => custom.decides_at_enqueue(),
                }
            }

            /// Creates the queue, if every decision is made when a packet arrives. Its random
            /// numbers follow from `seed`.
            ///
            /// # Panics
            ///
            /// Panics if [`AnyConfig::check`] refuses the settings.
            pub fn build_at_enqueue<P: Packet>(&self, seed: u64) -> Option<AtEnqueue<P>> {
                match self {
                    $(Self::$early(config) => Some(AtEnqueue::$early(config.build(seed).into())),)+
                    Self::Custom(custom) if custom.decides_at_enqueue() => {
                        Some(AtEnqueue::Short(Box::new(custom.build_short(seed)?)))
                    }
                    _ => None,
                }
            }

            /// Returns whether the discipline looks at a packet's [ports](Packet::ports).
            pub const fn reads_ports(&self) -> bool {
                match self {
                    $(Self::$early(_) => <$early_config as Discipline>::READS_PORTS,)+
                    $(Self::$late(_) => <$late_config as Discipline>::READS_PORTS,)+
                    Self::Custom(_) => true,
                }
            }

            /// Returns whether the discipline looks at a packet's [hosts](Packet::hosts) or
            /// [code point](Packet::dscp).
            pub fn reads_hosts(&self) -> bool {
                match self {
                    $(Self::$early(config) => config.reads_hosts(),)+
                    $(Self::$late(config) => config.reads_hosts(),)+
                    Self::Custom(_) => true,
                }
            }

            /// Returns whether the discipline wants to know what segments acknowledge
            /// ([`Qdisc::announce`]).
            pub fn reads_acks(&self) -> bool {
                match self {
                    $(Self::$early(config) => config.reads_acks(),)+
                    $(Self::$late(config) => config.reads_acks(),)+
                    Self::Custom(custom) => custom.reads_acks(),
                }
            }

            /// Returns its name in configurations, or the name that one from outside was given.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$early(_) => $early_name,)+
                    $(Self::$late(_) => $late_name,)+
                    Self::Custom(custom) => custom.name(),
                }
            }

            /// Checks whether a queue can have these settings.
            ///
            /// # Errors
            ///
            /// Returns the first setting that is out of range.
            pub fn check(&self) -> Result<(), ConfigError> {
                match self {
                    $(Self::$early(config) => config.check(),)+
                    $(Self::$late(config) => config.check(),)+
                    Self::Custom(_) => Ok(()),
                }
            }

            /// Fills in every open value that follows from others, or from the rate at which the
            /// queue is served, and returns the settings.
            #[must_use]
            pub fn settled(self, rate: Rate) -> Self {
                match self {
                    $(Self::$early(config) => Self::$early(config.settled(rate)),)+
                    $(Self::$late(config) => Self::$late(config.settled(rate)),)+
                    Self::Custom(custom) => Self::Custom(custom),
                }
            }

            /// Returns what a plot shows beside the queue.
            pub fn levels(&self) -> Levels {
                match self {
                    $(Self::$early(config) => config.levels(),)+
                    $(Self::$late(config) => config.levels(),)+
                    Self::Custom(_) => Levels::default(),
                }
            }

            /// Returns how many queues it holds from the start, including those of disciplines
            /// inside it.
            pub fn held(&self) -> u64 {
                let own = match self {
                    $(Self::$early(config) => config.held(),)+
                    $(Self::$late(config) => config.held(),)+
                    Self::Custom(_) => 0,
                };
                self.inner().into_iter().fold(own, |sum, (_, inner)| sum + inner.held())
            }

            /// Returns the names of its classes: bands, tins, or the queues for L4S and for others.
            /// Empty: it has none.
            pub fn classes(&self) -> Vec<String> {
                match self {
                    $(Self::$early(config) => Discipline::classes(config),)+
                    $(Self::$late(config) => Discipline::classes(config),)+
                    Self::Custom(_) => Vec::new(),
                }
            }

            /// Returns the class of a packet that arrives, an index of [`AnyConfig::classes`].
            #[inline]
            pub fn class_of<P: Packet>(&self, packet: &P) -> usize {
                match self {
                    $(Self::$early(config) => config.class_of(packet),)+
                    $(Self::$late(config) => config.class_of(packet),)+
                    Self::Custom(_) => 0,
                }
            }

            /// Returns the disciplines inside it, each with the path to its key.
            pub fn inner(&self) -> Vec<(String, &Self)> {
                match self {
                    $(Self::$early(config) => config.inner(),)+
                    $(Self::$late(config) => config.inner(),)+
                    Self::Custom(_) => Vec::new(),
                }
            }

            /// Returns the disciplines inside it, to be changed.
            pub(crate) fn inner_mut(&mut self) -> Vec<&mut Self> {
                match self {
                    $(Self::$early(config) => config.inner_mut(),)+
                    $(Self::$late(config) => config.inner_mut(),)+
                    Self::Custom(_) => Vec::new(),
                }
            }

            /// Creates an empty queue with these settings. Its random numbers follow from `seed`.
            ///
            /// # Panics
            ///
            /// Panics if [`AnyConfig::check`] refuses the settings.
            pub fn build<P: Packet>(&self, seed: u64) -> AnyQdisc<P> {
                match self {
                    $(Self::$early(config) => AnyQdisc::$early(config.build(seed).into()),)+
                    $(Self::$late(config) => AnyQdisc::$late(config.build(seed).into()),)+
                    Self::Custom(custom) => custom.build(seed),
                }
            }
        }

        impl<P: Packet> AtEnqueue<P> {
            /// Accepts a packet or refuses it, as [`Qdisc::enqueue`] does. Decisions from outside
            /// are about what `view` shows.
            #[inline]
            pub fn enqueue_as(
                &mut self,
                now: Time,
                packet: P,
                view: impl FnOnce() -> PacketView,
                dropped: &mut Dropped<P>,
            ) -> Verdict {
                match self {
                    $(Self::$early(queue) => queue.enqueue(now, packet, dropped),)+
                    Self::Short(queue) => queue.enqueue_as(now, packet, view(), dropped),
                }
            }

            /// Calls `visitor` with the discipline inside.
            #[inline]
            pub fn visit(&mut self, visitor: impl Visit<P>) {
                match self {
                    $(Self::$early(queue) => {
                        let notices = <$early_config as Discipline>::NOTICES_IDLENESS;
                        let queue: &mut Of<$early_config, P> = queue;
                        visitor.visit(queue, notices);
                    })+
                    Self::Short(queue) => visitor.visit(&mut **queue, false),
                }
            }
        }

        dispatch!(AnyQdisc: $($early)+ $($late)+ Custom Outside Short Full);
        dispatch!(AtEnqueue: $($early)+ Short);

        impl<P: fmt::Debug> fmt::Debug for AnyQdisc<P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$early(queue) => queue.fmt(f),)+
                    $(Self::$late(queue) => queue.fmt(f),)+
                    Self::Custom(_) => f.write_str("Custom"),
                    Self::Outside(queue) => queue.fmt(f),
                    Self::Short(queue) => queue.fmt(f),
                    Self::Full(queue) => queue.fmt(f),
                }
            }
        }

        impl<P: fmt::Debug> fmt::Debug for AtEnqueue<P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$early(queue) => queue.fmt(f),)+
                    Self::Short(queue) => queue.fmt(f),
                }
            }
        }

        $(
            impl<P> From<Of<$early_config, P>> for AnyQdisc<P> {
                fn from(queue: Of<$early_config, P>) -> Self {
                    Self::$early(queue.into())
                }
            }

            impl From<$early_config> for AnyConfig {
                fn from(config: $early_config) -> Self {
                    Self::$early(config)
                }
            }
        )+
        $(
            impl<P> From<Of<$late_config, P>> for AnyQdisc<P> {
                fn from(queue: Of<$late_config, P>) -> Self {
                    Self::$late(queue.into())
                }
            }

            impl From<$late_config> for AnyConfig {
                fn from(config: $late_config) -> Self {
                    Self::$late(config)
                }
            }
        )+
    };
}

impl<P: Packet> AnyQdisc<P> {
    /// Changes the settings of a queue and keeps what waits, as `tc qdisc change` does. Returns
    /// whether it could: a queue of another kind has to be made anew, and so has any but a FIFO,
    /// CoDel or PIE.
    ///
    /// Appends to `dropped` what the new limit does not admit.
    pub fn change(&mut self, config: &AnyConfig, dropped: &mut Dropped<P>) -> bool {
        match (self, config) {
            (Self::Pfifo(queue), AnyConfig::Pfifo(config)) => queue.change(config),
            (Self::Bfifo(queue), AnyConfig::Bfifo(config)) => queue.change(config),
            (Self::Codel(queue), AnyConfig::Codel(config)) => queue.change(config, dropped),
            (Self::Pie(queue), AnyConfig::Pie(config)) => queue.change(config, dropped),
            _ => return false,
        }
        true
    }
}

impl AnyConfig {
    /// Returns how deep disciplines are nested, counting this one.
    pub(crate) fn depth(&self) -> usize {
        1 + self.inner().iter().map(|(_, inner)| inner.depth()).max().unwrap_or(0)
    }
}

/// Implements [`Qdisc`] for an enum of disciplines by delegation.
macro_rules! dispatch {
    ($any:ident: $($variant:ident)+) => {
        impl<P: Packet> Qdisc<P> for $any<P> {
            #[inline]
            fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
                match self { $(Self::$variant(queue) => queue.enqueue(now, packet, dropped),)+ }
            }

            fn announce(&mut self, ack: Option<&Ack>) {
                match self { $(Self::$variant(queue) => queue.announce(ack),)+ }
            }

            #[inline]
            fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
                match self { $(Self::$variant(queue) => queue.dequeue(now, dropped),)+ }
            }

            #[inline]
            fn ready_at(&self, now: Time) -> Option<Time> {
                match self { $(Self::$variant(queue) => queue.ready_at(now),)+ }
            }

            #[inline]
            fn head(&self) -> Option<&P> {
                match self { $(Self::$variant(queue) => queue.head(),)+ }
            }

            fn average_queue(&self) -> Option<AverageQueue> {
                match self { $(Self::$variant(queue) => queue.average_queue(),)+ }
            }

            fn prefetch(&self, coming: Coming<'_, P>) {
                match self { $(Self::$variant(queue) => queue.prefetch(coming),)+ }
            }

            #[inline]
            fn backlog(&self) -> Backlog {
                match self { $(Self::$variant(queue) => queue.backlog(),)+ }
            }

            #[inline]
            fn counters(&self) -> Counters {
                match self { $(Self::$variant(queue) => queue.counters(),)+ }
            }
        }
    };
}

/// Returns the seed of the discipline in band `index` of one with `seed`.
pub(crate) const fn inner_seed(seed: u64, index: usize) -> u64 {
    mix(index as u64, seed)
}

disciplines! {
    decide when a packet comes {
        Pfifo(Inline fifo::PfifoConfig) = "pfifo",
        Bfifo(Inline fifo::BfifoConfig) = "bfifo",
        Red(Boxed red::linux::Config) = "red",
        Red1993(Boxed red::classic::Config) = "red-1993",
        Pie(Boxed pie::Config) = "pie",
        Blue(Boxed blue::Config) = "blue",
    }
    decide when a packet is to leave {
        Codel(Boxed codel::Config) = "codel",
        FqCodel(Boxed fq_codel::Config) = "fq-codel",
        FqPie(Boxed fq_pie::Config) = "fq-pie",
        Cake(Boxed cake::Config) = "cake",
        Dualpi2(Boxed dualpi2::Config) = "dualpi2",
        Fq(Boxed fq::Config) = "fq",
        Drr(Boxed drr::plain::Config) = "drr",
        Tdrr(Boxed drr::tdrr::Config) = "tdrr",
        Qsdrr(Boxed drr::qsdrr::Config) = "qsdrr",
        Sfq(Boxed sfq::Config) = "sfq",
        Prio(Boxed prio::Config) = "prio",
        Classes(Boxed classes::Config) = "classes",
    }
}

impl Setting for AnyConfig {
    const KIND: Kind = Kind::Choice(&[]);

    fn value(&self) -> Value {
        Value::Choice(self.name().to_owned())
    }

    fn check(&self, key: &str, _rule: &Rule) -> Result<(), ConfigError> {
        Self::check(self).map_err(|error| error.inside(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;
    use crate::traffic::TestPacket;

    fn defaults() -> Vec<AnyConfig> {
        AnyConfig::LISTED.iter().map(|listed| (listed.default)()).collect()
    }

    #[test]
    fn every_discipline_of_the_list_obeys_the_laws() {
        for listed in AnyConfig::LISTED {
            let config = (listed.default)();
            assert_eq!(config.name(), listed.name);
            assert_eq!(config.check(), Ok(()), "{}", listed.name);
            laws::check(|| config.build::<TestPacket>(1));
            let at_enqueue = config.build_at_enqueue::<TestPacket>(1).is_some();
            assert_eq!([config.decides_at_enqueue(), at_enqueue], [listed.decides_at_enqueue; 2]);
        }
        laws::check(|| {
            AnyQdisc::Custom(Box::new(fifo::Pfifo::new(fifo::PfifoConfig { limit: 20 })))
        });
    }

    #[test]
    fn a_queue_whose_settings_change_keeps_what_the_new_limit_admits() {
        let fifo = |limit| AnyConfig::from(fifo::PfifoConfig { limit });
        let codel = |limit| AnyConfig::from(codel::Config { limit, ..Default::default() });
        let pie = |limit| AnyConfig::from(pie::Config { limit, ..Default::default() });
        for (before, after, kept) in
            [(fifo(9), fifo(3), 8), (codel(9), codel(3), 3), (pie(9), pie(3), 3)]
        {
            let mut queue = before.build(1);
            let mut dropped = Vec::new();
            for number in 0..8 {
                queue.enqueue(
                    Time::ZERO,
                    TestPacket { number, ..Default::default() },
                    &mut dropped,
                );
            }
            assert!(queue.change(&after, &mut dropped), "{}", after.name());
            assert_eq!(queue.backlog().packets, kept);
            // The oldest go first.
            let numbers: Vec<u64> = dropped.iter().map(|(packet, _)| packet.number).collect();
            assert_eq!(numbers, (0..8 - u64::from(kept)).collect::<Vec<_>>());
            assert!(queue.counters().balance(queue.backlog()));
            queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
            assert_eq!(queue.backlog().packets, kept, "the new limit holds");
            let other = AnyConfig::from(red::linux::Config::default());
            assert!(!queue.change(&other, &mut dropped), "RED has to be made anew");
        }
    }

    /// A caller computes the departures of a discipline that decides at enqueue from its head
    /// packet.
    #[test]
    fn what_decides_at_enqueue_shows_the_packet_in_front_and_others_may_not() {
        for config in defaults().iter().filter(|config| config.decides_at_enqueue()) {
            let mut queue = config.build::<TestPacket>(1);
            for number in 0..5 {
                let packet = TestPacket { number, ..TestPacket::default() };
                queue.enqueue(Time::ZERO, packet, &mut Vec::new());
            }
            while let Some(head) = queue.head().copied() {
                assert_eq!(queue.dequeue(Time::ZERO, &mut Vec::new()), Some(head));
            }
            assert_eq!(queue.backlog(), Backlog::default(), "{}", config.name());
        }
    }

    #[test]
    fn only_red_keeps_an_average() {
        let keeps: Vec<_> = defaults()
            .iter()
            .filter(|config| config.build::<TestPacket>(1).average_queue().is_some())
            .map(|config| config.name().to_owned())
            .collect();
        assert_eq!(keeps, ["red", "red-1993"]);
    }

    #[test]
    fn defaults_keep_the_rules_and_words_are_among_those_that_are_declared() {
        for listed in AnyConfig::LISTED {
            for key in listed.table.keys {
                match ((key.default)(), key.kind) {
                    (Value::Word(word), Kind::Words(words)) => assert!(words.contains(&word)),
                    (Value::Whole(value), _) => {
                        assert_eq!(key.rule.check(key.name, value as f64), Ok(()));
                    }
                    (Value::Number(value), _) => {
                        assert_eq!(key.rule.check(key.name, value), Ok(()));
                    }
                    (Value::Open, _) => assert!(key.optional, "{}.{}", listed.name, key.name),
                    _ => {}
                }
            }
        }
    }
}
