//! How long queries and replies are.

use narrows_units::Bytes;

use super::HEADER;
use crate::application::Draw;
use crate::random::Random;

/// Lengths of messages.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Sizes {
    /// Query and reply by themselves.
    Drawn {
        /// Bytes of a query.
        query: Draw<Bytes>,
        /// Bytes of a reply.
        reply: Draw<Bytes>,
    },
    /// One of several exchanges, by chance.
    Chosen(Vec<Choice>),
}

/// An exchange that may be chosen.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// Bytes of the query.
    pub query: u32,
    /// Bytes of the reply.
    pub reply: u32,
    /// How often it is chosen, in proportion to the others.
    pub weight: f64,
}

/// The lengths of a query and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) query: u32,
    pub(crate) reply: u32,
}

/// The longest message over TCP.
const LONGEST: u32 = u16::MAX as u32;
/// The longest message in an IPv4 packet of 64 KB, behind its headers.
const LONGEST_OVER_UDP: u32 = u16::MAX as u32 - 28;

impl Sizes {
    /// Always the same.
    pub fn fixed(query: u32, reply: u32) -> Self {
        let constant = |bytes: u32| Draw::Constant(Bytes::from(bytes));
        Self::Drawn { query: constant(query), reply: constant(reply) }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Drawn { query, reply } => {
                for (name, draw) in [("query", query), ("reply", reply)] {
                    draw.check().map_err(|why| format!("sizes: {name}: {why}"))?;
                    let fits = |bytes: &Bytes| {
                        (u64::from(HEADER)..=u64::from(LONGEST)).contains(&bytes.get())
                    };
                    let all_fit = match draw {
                        Draw::Constant(bytes) => fits(bytes),
                        Draw::List(list) => list.iter().all(fits),
                        // What is drawn is cut to what is possible.
                        Draw::Exponential { mean } | Draw::Pareto { mean, .. } => fits(mean),
                    };
                    if !all_fit {
                        return Err(format!(
                            "sizes: {name}: a message has {HEADER} to {LONGEST} B"
                        ));
                    }
                }
            }
            Self::Chosen(choices) => {
                let fits = |choice: &Choice| {
                    (HEADER..=LONGEST).contains(&choice.query)
                        && (HEADER..=LONGEST).contains(&choice.reply)
                };
                if !choices.iter().all(fits) {
                    return Err(format!("sizes: a message has {HEADER} to {LONGEST} B"));
                }
                let weights = choices.iter().map(|choice| choice.weight);
                if !weights.clone().all(|weight| weight.is_finite() && weight >= 0.0)
                    || weights.sum::<f64>() <= 0.0
                {
                    return Err("sizes: weights must be 0 or more, and one above 0".into());
                }
            }
        }
        Ok(())
    }

    /// The lengths of query number `turn`.
    pub(crate) fn next(&self, random: &mut Random, turn: u32) -> Exchange {
        match self {
            Self::Drawn { query, reply } => {
                let mut length = |draw: &Draw<Bytes>| {
                    let drawn = draw.next(random, turn);
                    drawn.clamp(u64::from(HEADER), u64::from(LONGEST)) as u32
                };
                Exchange { query: length(query), reply: length(reply) }
            }
            Self::Chosen(choices) => {
                let total: f64 = choices.iter().map(|choice| choice.weight).sum();
                let mut left = random.uniform() * total;
                let chosen = choices.iter().find(|choice| {
                    left -= choice.weight;
                    left < 0.0
                });
                let chosen = chosen.or(choices.last()).expect("the plan was checked");
                Exchange { query: chosen.query, reply: chosen.reply }
            }
        }
    }

    /// The longest query and the longest reply that may come.
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

    /// The shortest query and the shortest reply that may come.
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
                (
                    least(|choice| choice.query).unwrap_or(HEADER),
                    least(|choice| choice.reply).unwrap_or(HEADER),
                )
            }
        }
    }
}

impl Exchange {
    /// The query, as far as it fits a datagram.
    pub(crate) fn query_over_udp(self) -> u32 {
        self.query.min(LONGEST_OVER_UDP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_chosen_in_proportion_to_their_weights() {
        let choice = |reply, weight| Choice { query: 40, reply, weight };
        let sizes = Sizes::Chosen(vec![choice(100, 1.0), choice(200, 0.0), choice(300, 3.0)]);
        let mut random = Random::new(1, "sizes");
        let n = 40_000;
        let short = (0..n).filter(|&turn| sizes.next(&mut random, turn).reply == 100).count();
        let none = (0..n).filter(|&turn| sizes.next(&mut random, turn).reply == 200).count();
        // A quarter, with a standard error of 87 of 40,000.
        assert!((short as f64 - 10_000.0).abs() < 5.0 * 87.0, "{short}");
        assert_eq!(none, 0);
    }

    #[test]
    fn impossible_sizes_are_named() {
        let choice = |query, weight| Sizes::Chosen(vec![Choice { query, reply: 100, weight }]);
        assert_eq!(Sizes::fixed(12, 65_535).check(), Ok(()));
        for sizes in [
            Sizes::fixed(11, 100),
            Sizes::fixed(40, 65_536),
            choice(11, 1.0),
            choice(40, 0.0),
            choice(40, f64::NAN),
            choice(40, -1.0),
            Sizes::Chosen(Vec::new()),
        ] {
            let said = sizes.check().expect_err("it is impossible");
            assert!(said.starts_with("sizes: "), "{said}");
        }
    }
}
