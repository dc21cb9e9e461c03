//! The lengths of queries and replies.

use narrows_units::settings::{Rule, Setting, Settings, any, entries, size};
use narrows_units::{Bytes, ConfigError, choice, keys, settings};

use super::{HEADER, TRUNCATED};
use crate::{Draw, Message, Random};

choice! {
    /// The lengths of messages.
    pub enum Sizes {
        /// Queries and replies independently of each other.
        Drawn {
            /// The bytes of a query.
            query: Draw<Bytes>,
            /// The bytes of a reply.
            reply: Draw<Bytes>,
        },
        /// One of several exchanges, chosen at random.
        Chosen(Vec<Choice>),
    }
    with Choice
}

settings! {
    #[derive(Copy)]
    /// An exchange that may be chosen.
    pub struct Choice as "Exchange" {
        /// Length of the query, 12 B to 65535 B.
        query: u32 = 42, LENGTH.required();
        /// Length of the whole reply, 12 B to 65535 B.
        reply: u32 = 72, LENGTH.required();
        /// What the server sends over UDP if the whole reply does not fit; `None`: a truncated
        /// reply without records.
        over_udp: Option<OverUdp> = None, any();
        /// How often it is asked, relative to the others.
        weight: f64 = 1.0, Rule { least: Some(0.0), ..any() };
    }
}

impl Settings for Choice {
    fn check_together(&self) -> Result<(), ConfigError> {
        if !self.weight.is_finite() {
            return Err(ConfigError::new("weight", "must be finite"));
        }
        match self.over_udp {
            Some(shorter) if !(HEADER..=self.reply).contains(&shorter.bytes.into()) => {
                Err(ConfigError::new("over_udp", "must be a message, and no longer than reply"))
            }
            _ => Ok(()),
        }
    }
}

keys! {
    #[derive(Copy, Eq)]
    /// A reply over UDP that is shorter than the whole one.
    pub struct OverUdp {
        /// Its length in bytes.
        bytes: u16 = 0, any();
        /// Whether something essential is missing. Otherwise only additional records are missing
        /// (RFC 2181, section 9).
        truncated: bool = false, any();
    }
}

/// The lengths of a query and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) query: u32,
    pub(crate) reply: u32,
    pub(crate) over_udp: Option<OverUdp>,
}

/// What a query asks of its server.
///
/// In a message, the first note has the length of the whole reply in its lower half, and that of
/// the shorter one over UDP in its upper half (0: none). The second note has the longest reply that
/// the client accepts over UDP in its lower half. A bit of its upper half, `TRUNCATED`, is set if
/// the shorter reply is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The bytes of the whole reply.
    pub whole: u32,
    over_udp: Option<OverUdp>,
    takes: u16,
}

impl Wanted {
    /// Reads a query's message.
    pub fn of(query: &Message) -> Self {
        let [lengths, takes] = query.notes;
        let bytes = (lengths >> 16) as u16;
        let truncated = takes & TRUNCATED != 0;
        Self {
            whole: lengths & 0xffff,
            over_udp: (bytes > 0).then_some(OverUdp { bytes, truncated }),
            takes: takes as u16,
        }
    }

    /// Returns this in the form of a message's two notes.
    pub fn notes(self) -> [u32; 2] {
        let (bytes, truncated) = self.over_udp.map_or((0, 0), |shorter| {
            (u32::from(shorter.bytes) << 16, if shorter.truncated { TRUNCATED } else { 0 })
        });
        [self.whole | bytes, u32::from(self.takes) | truncated]
    }

    /// Returns the same query from a client that accepts this many bytes over UDP.
    pub fn taking(self, takes: u16) -> Self {
        Self { takes, ..self }
    }

    /// Returns the reply over UDP of a server that sends at most `most` bytes: its length, and
    /// whether it is truncated. `empty` is the length of a reply without records.
    pub fn reply_over_udp(self, most: u16, empty: u32) -> (u32, bool) {
        let most = u32::from(most.min(self.takes));
        match self.over_udp {
            _ if self.whole <= most => (self.whole, false),
            Some(shorter) if u32::from(shorter.bytes) <= most => {
                (u32::from(shorter.bytes), shorter.truncated)
            }
            _ => (empty, true),
        }
    }
}

/// The longest message over TCP.
const LONGEST: u64 = u16::MAX as u64;
/// The rule for lengths of messages. Drawn ones are cut to what is possible.
const LENGTH: Rule = size(HEADER as u64, LONGEST);
/// The longest message in an IPv4 packet of 64 KB, after its headers.
const LONGEST_OVER_UDP: u32 = u16::MAX as u32 - 28;

impl Sizes {
    /// Creates constant lengths.
    pub fn fixed(query: u32, reply: u32) -> Self {
        let constant = |bytes: u32| Draw::Constant(Bytes::from(bytes));
        Self::Drawn { query: constant(query), reply: constant(reply) }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Drawn { query, reply } => {
                query.check("query", &LENGTH)?;
                reply.check("reply", &LENGTH)
            }
            Self::Chosen(choices) => {
                choices.check("chosen", &entries(1, u64::from(u32::MAX)))?;
                if choices.iter().map(|choice| choice.weight).sum::<f64>() <= 0.0 {
                    return Err(ConfigError::new("chosen", "needs a weight above zero"));
                }
                Ok(())
            }
        }
    }

    /// Returns the lengths of query number `turn`.
    pub(crate) fn next(&self, random: &mut Random, turn: u32) -> Exchange {
        match self {
            Self::Drawn { query, reply } => {
                let mut length = |draw: &Draw<Bytes>| {
                    let drawn = draw.next(random, turn);
                    drawn.clamp(u64::from(HEADER), LONGEST) as u32
                };
                Exchange { query: length(query), reply: length(reply), over_udp: None }
            }
            Self::Chosen(choices) => {
                let total: f64 = choices.iter().map(|choice| choice.weight).sum();
                let mut left = random.uniform() * total;
                let chosen = choices.iter().find(|choice| {
                    left -= choice.weight;
                    left < 0.0
                });
                let chosen = chosen.or(choices.last()).expect("the plan was checked");
                let Choice { query, reply, over_udp, .. } = *chosen;
                Exchange { query, reply, over_udp }
            }
        }
    }

    /// Returns the lengths of the longest possible query and reply.
    pub fn longest(&self) -> (u32, u32) {
        let drawn = |draw: &Draw<Bytes>| match draw {
            Draw::Constant(bytes) => bytes.get() as u32,
            Draw::List(list) => list.iter().map(|b| b.get() as u32).max().unwrap_or(HEADER),
            Draw::Exponential { .. } | Draw::Pareto { .. } => u32::from(u16::MAX),
        };
        match self {
            Self::Drawn { query, reply } => (drawn(query), drawn(reply)),
            Self::Chosen(choices) => {
                let most = |bytes: fn(&Choice) -> u32| choices.iter().map(bytes).max();
                (
                    most(|choice| choice.query).unwrap_or(HEADER),
                    most(|choice| choice.reply).unwrap_or(HEADER),
                )
            }
        }
    }

    /// Returns the lengths of the shortest possible query and reply.
    pub fn shortest(&self) -> (u32, u32) {
        let drawn = |draw: &Draw<Bytes>| match draw {
            Draw::Constant(bytes) => bytes.get() as u32,
            Draw::List(list) => list.iter().map(|b| b.get() as u32).min().unwrap_or(HEADER),
            Draw::Exponential { .. } | Draw::Pareto { .. } => HEADER,
        };
        match self {
            Self::Drawn { query, reply } => (drawn(query), drawn(reply)),
            Self::Chosen(choices) => {
                let least = |bytes: fn(&Choice) -> u32| choices.iter().map(bytes).min();
                let reply = |choice: &Choice| {
                    choice.over_udp.map_or(choice.reply, |shorter| shorter.bytes.into())
                };
                (least(|choice| choice.query).unwrap_or(HEADER), least(reply).unwrap_or(HEADER))
            }
        }
    }
}

impl Exchange {
    /// Returns what the query asks for over TCP, which has room for the whole reply.
    pub(crate) fn wanted(self) -> Wanted {
        Wanted { whole: self.reply, over_udp: self.over_udp, takes: 0 }
    }

    /// Returns the length of the query, as far as it fits a datagram.
    pub(crate) fn query_over_udp(self) -> u32 {
        self.query.min(LONGEST_OVER_UDP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_chosen_in_proportion_to_their_weights() {
        let choice = |reply, weight| Choice { query: 40, reply, over_udp: None, weight };
        let sizes = Sizes::Chosen(vec![choice(100, 1.0), choice(200, 0.0), choice(300, 3.0)]);
        let mut random = Random::new(1, "sizes");
        let n = 40_000;
        let short = (0..n).filter(|&turn| sizes.next(&mut random, turn).reply == 100).count();
        let none = (0..n).filter(|&turn| sizes.next(&mut random, turn).reply == 200).count();
        // A quarter of them, with a standard error of 87 in 40,000.
        assert!((short as f64 - 10_000.0).abs() < 5.0 * 87.0, "{short}");
        assert_eq!(none, 0);
    }

    /// RFC 2181, 9: TC is for essential records; additional records that do not fit are left out.
    #[test]
    fn what_goes_over_udp_depends_on_what_fits() {
        let asked = |bytes, truncated, takes| {
            let over_udp = Some(OverUdp { bytes, truncated });
            let wanted = Exchange { query: 51, reply: 1964, over_udp }.wanted().taking(takes);
            let query = Message { bytes: 51, tag: 7, notes: wanted.notes() };
            assert_eq!(Wanted::of(&query), wanted);
            wanted.reply_over_udp(4096, 51)
        };
        assert_eq!(asked(1001, false, 4096), (1964, false));
        assert_eq!(asked(1001, false, 1232), (1001, false));
        assert_eq!(asked(1180, true, 1232), (1180, true));
        assert_eq!(asked(1001, false, 512), (51, true));
        let wanted = Exchange { query: 51, reply: 65_535, over_udp: None }.wanted();
        let longest = wanted.taking(65_507);
        let query = Message { bytes: 51, tag: 7, notes: longest.notes() };
        assert_eq!(Wanted::of(&query), longest);
        assert_eq!(longest.reply_over_udp(65_507, 51), (51, true));
    }

    #[test]
    fn impossible_sizes_are_named() {
        let one = |query, bytes: Option<u16>, weight| {
            let over_udp = bytes.map(|bytes| OverUdp { bytes, truncated: false });
            Sizes::Chosen(vec![Choice { query, reply: 100, over_udp, weight }])
        };
        let choice = |query, weight| one(query, None, weight);
        assert_eq!(one(40, Some(100), 1.0).check(), Ok(()));
        assert_eq!(Sizes::fixed(12, 65_535).check(), Ok(()));
        for sizes in [
            Sizes::fixed(11, 100),
            Sizes::fixed(40, 65_536),
            choice(11, 1.0),
            choice(40, 0.0),
            choice(40, f64::NAN),
            choice(40, -1.0),
            one(40, Some(11), 1.0),
            one(40, Some(101), 1.0),
            Sizes::Chosen(Vec::new()),
        ] {
            sizes.check().expect_err("it is impossible");
        }
    }
}
