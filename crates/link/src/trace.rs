//! Rates over time, as text: Mahimahi's traces, and tables of rates.
//!
//! Mahimahi's format (mm-link(1), Mahimahi 0.98) has a millisecond on each line, at which 1500 bytes
//! may leave. The list starts again after its last entry. A rate is therefore only known to one
//! packet of 1500 bytes in each millisecond: 12 Mbit/s over one millisecond, 12 kbit/s over a second.
//!
//! A table of rates has a time in seconds and a rate in bit/s on each line, separated by a comma. The
//! first time is 0. A rate holds until the next line, the last one to the end; 0 means that the link
//! is down. A first line with names, blank lines and what follows a `#` are ignored.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;

use narrows_units::{Rate, Span, Time};

use crate::transmitter::{HIGHEST_BPS, OPPORTUNITY_BYTES};
use crate::{Change, LinkState};

/// The most lines of a trace in Mahimahi's format.
pub const MOST_LINES: usize = 5_000_000;
/// The most lines of a table of rates.
pub const MOST_RATES: usize = 100_000;

/// The most opportunities in a millisecond: 3.6 Tbit/s.
const MOST_IN_A_MS: usize = 300_000;
const LATEST: Span = Span::from_secs(240 * 3600);
const HINT_MS: &str = "a line is a millisecond, such as 17";
const HINT_RATE: &str = "a line is such as 0.5,2000000";

/// What is wrong with a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
    /// The remedy.
    pub hint: &'static str,
}

/// A table of rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The times at which a rate begins, and the rate in bit/s. The first time is zero.
    pub steps: Vec<(Time, u64)>,
}

/// Reads a trace in Mahimahi's format: milliseconds that never decrease.
///
/// # Errors
///
/// Returns the first line that is wrong.
pub fn opportunities(text: &str) -> Result<Vec<u32>, TraceError> {
    let mut found: Vec<u32> = Vec::new();
    for (number, line) in numbered(text) {
        let wrong = |what: &str| Err(TraceError::at(number, what, HINT_MS));
        let word = line.trim();
        let is_number = word.len() <= 9 && word.bytes().all(|byte| byte.is_ascii_digit());
        let Some(at) = word.parse().ok().filter(|_| is_number) else {
            return wrong("is not a whole number of milliseconds");
        };
        if found.last().is_some_and(|&last| at < last) {
            return wrong("goes back in time");
        }
        if found.len() == MOST_LINES {
            return Err(TraceError::at(0, format!("has more than {MOST_LINES} lines"), "cut it"));
        }
        if found.len() >= MOST_IN_A_MS && found[found.len() - MOST_IN_A_MS] == at {
            let what = format!("is one of more than {MOST_IN_A_MS} in a millisecond");
            return Err(TraceError::at(number, what, "thin it"));
        }
        found.push(at);
    }
    if found.last().is_none_or(|&last| last == 0) {
        return Err(TraceError::at(0, "has a length of zero", HINT_MS));
    }
    Ok(found)
}

/// Returns the mean rate of a trace in Mahimahi's format, in whole bit/s.
pub fn mean(ms: &[u32]) -> Rate {
    let last = u64::from(ms.last().copied().unwrap_or(0)).max(1);
    let bps = ms.len() as u64 * OPPORTUNITY_BYTES * 8 * 1000 / last;
    Rate::from_bps(bps.max(1)).expect("it is above zero")
}

/// Reads a table of rates.
///
/// # Errors
///
/// Returns the first line that is wrong.
pub fn rates(text: &str) -> Result<Rates, TraceError> {
    let mut steps: Vec<(Time, u64)> = Vec::new();
    for (number, line) in numbered(text) {
        let wrong = |what: &str| Err(TraceError::at(number, what, HINT_RATE));
        let line = line.split('#').next().unwrap_or_default().trim();
        let is_head = number == 1 && line.starts_with(|it: char| it.is_alphabetic() || it == '"');
        if line.is_empty() || is_head {
            continue;
        }
        let Some((at, bps)) = line.split_once(',') else {
            return wrong("does not hold a time and a rate");
        };
        let (Ok(at), Ok(bps)) = (at.trim().parse::<f64>(), bps.trim().parse::<f64>()) else {
            return wrong("does not hold two numbers");
        };
        if !(0.0..=LATEST.as_secs_f64()).contains(&at) {
            return wrong("has a time that is not from 0 s to 240 h");
        }
        if !(0.0..=HIGHEST_BPS as f64).contains(&bps) {
            return wrong("has a rate that is not from 0 to 8e12 bit/s");
        }
        let at = Time::ZERO + Span::from_secs_f64(at);
        match steps.last() {
            None if at > Time::ZERO => return wrong("does not begin at 0 s"),
            Some(&(last, _)) if at <= last => return wrong("is not later than the line before"),
            _ => {}
        }
        if steps.len() == MOST_RATES {
            return Err(TraceError::at(0, format!("has more than {MOST_RATES} rates"), "thin it"));
        }
        // Less than 1 bit/s would be no rate.
        let whole = if bps > 0.0 { libm::round(bps).max(1.0) as u64 } else { 0 };
        steps.push((at, whole));
    }
    if steps.iter().all(|&(_, bps)| bps == 0) {
        return Err(TraceError::at(0, "has no rate above zero", HINT_RATE));
    }
    Ok(Rates { steps })
}

impl Rates {
    /// Returns the mean rate up to the last line, or the only rate.
    pub fn mean(&self) -> Rate {
        let spans = self.steps.windows(2).map(|pair| (pair[1].0.since(pair[0].0), pair[0].1));
        let (mut bits, mut ps) = (0, 0);
        for (span, bps) in spans {
            bits += u128::from(span.as_ps()) * u128::from(bps);
            ps += u128::from(span.as_ps());
        }
        let last = self.steps.last().map_or(0, |&(_, bps)| bps);
        // It is between the lowest and the highest rate.
        let mean = bits.checked_div(ps).map_or(last, |mean| mean as u64);
        Rate::from_bps(mean.max(1)).expect("it is above zero")
    }

    /// Returns the changes of a link that follows the table.
    pub fn changes(&self) -> Vec<Change> {
        let change = |&(at, bps): &(Time, u64)| Change {
            at,
            rate: Rate::from_bps(bps),
            state: Some(if bps == 0 { LinkState::Down } else { LinkState::Up }),
            ..Change::default()
        };
        self.steps.iter().map(change).collect()
    }

    /// Returns the table as text.
    pub fn text(&self) -> String {
        let mut text = String::from("t_s,rate_bps\n");
        for (at, bps) in &self.steps {
            text += &format!("{},{bps}\n", at.as_secs_f64());
        }
        text
    }

    /// Returns the milliseconds of Mahimahi's format in which these rates are offered until `end`,
    /// which is rounded up to a whole number of milliseconds.
    ///
    /// Bytes are handed on in whole opportunities, at the end of the millisecond in which they are
    /// complete. So at the end of every millisecond, the list has offered less than 1500 bytes fewer
    /// than the rates have, and never more. The list must end at `end`, because it starts again
    /// there. Its last opportunity is therefore moved to the end, and until then the list may lack
    /// another 1500 bytes. What is left at the end, less than 1500 bytes, is lost.
    ///
    /// # Errors
    ///
    /// Refuses rates that offer nothing until then, or more than the format's limits.
    pub fn opportunities(&self, end: Time) -> Result<Vec<u32>, TraceError> {
        const PS_PER_MS: u64 = 1_000_000_000;
        /// Bits times picoseconds in a second, for one opportunity.
        const ONE: u128 = OPPORTUNITY_BYTES as u128 * 8 * 1_000_000_000_000;
        let wrong = |what: String| Err(TraceError::at(0, what, "cut it"));
        let last_ms = end.as_ps().div_ceil(PS_PER_MS);
        if last_ms == 0 || last_ms > 999_999_999 {
            return wrong(String::from("does not last from 1 ms to 999999999 ms"));
        }
        let mut found = vec![];
        let mut offered = 0;
        for (index, &(from, bps)) in self.steps.iter().enumerate() {
            let to = self.steps.get(index + 1).map_or(u64::MAX, |step| step.0.as_ps());
            let to = to.min(last_ms * PS_PER_MS);
            let mut at = from.as_ps();
            while at < to {
                let ms_ends = (at / PS_PER_MS + 1) * PS_PER_MS;
                let until = ms_ends.min(to);
                offered += u128::from(until - at) * u128::from(bps);
                while offered >= ONE {
                    offered -= ONE;
                    // What a millisecond offers may leave at its end.
                    found.push(until.div_ceil(PS_PER_MS) as u32);
                    if found.len() > MOST_LINES {
                        return wrong(format!("has more than {MOST_LINES} opportunities"));
                    }
                }
                at = until;
            }
        }
        match found.last_mut() {
            // The list begins again after its last entry, so that has to be the end.
            Some(last) => *last = last_ms as u32,
            None => return wrong(String::from("offers less than 1500 bytes")),
        }
        Ok(found)
    }
}

/// Returns the lines with their numbers, from 1, without a byte order mark.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

impl TraceError {
    fn at(line: usize, what: impl Into<String>, hint: &'static str) -> Self {
        Self { line, what: what.into(), hint }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {} ", self.line)?;
        }
        write!(f, "{}; hint: {}", self.what, self.hint)
    }
}

impl core::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn table(steps: &[(u64, u64)]) -> Rates {
        Rates { steps: steps.iter().map(|&(at, bps)| (ms(at), bps)).collect() }
    }

    #[test]
    fn a_table_of_rates_is_read_and_written() {
        let text = "t_s,rate_bps\n0, 5e6  # good\n\n1.5,0\n2,2500000.4\n";
        let read = rates(text).expect("it is sound");
        assert_eq!(read, table(&[(0, 5_000_000), (1_500, 0), (2_000, 2_500_000)]));
        assert_eq!(rates(&read.text()), Ok(read.clone()));
        assert_eq!(read.mean().as_bps(), 3_750_000);
        let changes = read.changes();
        assert_eq!(changes[1].state, Some(LinkState::Down));
        assert_eq!((changes[1].rate, changes[2].state), (None, Some(LinkState::Up)));
    }

    #[test]
    fn a_wrong_line_of_a_table_is_named() {
        let cases = [
            ("0,1\n1;2\n", 2, "does not hold a time and a rate"),
            ("0,fast\n", 1, "does not hold two numbers"),
            ("0,1\nt,r\n", 2, "does not hold two numbers"),
            ("0,nan\n", 1, "has a rate that is not from 0 to 8e12 bit/s"),
            ("0,-1\n", 1, "has a rate that is not from 0 to 8e12 bit/s"),
            ("0,inf\n", 1, "has a rate that is not from 0 to 8e12 bit/s"),
            ("0,1e300\n", 1, "has a rate that is not from 0 to 8e12 bit/s"),
            // Its first word is a name, so it is the head of an empty table.
            ("nan,1\n", 0, "has no rate above zero"),
            ("0,5\nnan,1\n", 2, "has a time that is not from 0 s to 240 h"),
            ("0,5\n-0.5,1\n", 2, "has a time that is not from 0 s to 240 h"),
            ("0,5\n1e9,1\n", 2, "has a time that is not from 0 s to 240 h"),
            ("0.5,1\n", 1, "does not begin at 0 s"),
            ("0,1\n1,2\n1,3\n", 3, "is not later than the line before"),
            ("", 0, "has no rate above zero"),
            ("0,0\n1,0\n", 0, "has no rate above zero"),
        ];
        for (text, line, what) in cases {
            let wrong = rates(text).expect_err(text);
            assert_eq!((wrong.line, &*wrong.what), (line, what), "{text}");
        }
    }

    #[test]
    fn mahimahi_s_lines_are_read_and_wrong_ones_named() {
        assert_eq!(opportunities("\u{feff}0\n 3\n3\n"), Ok(vec![0, 3, 3]));
        let cases = [
            ("1\n\n2\n", 2, "is not a whole number of milliseconds"),
            ("1\n-2\n", 2, "is not a whole number of milliseconds"),
            ("1\n1234567890\n", 2, "is not a whole number of milliseconds"),
            ("1\n2.5\n", 2, "is not a whole number of milliseconds"),
            ("2\n1\n", 2, "goes back in time"),
            ("", 0, "has a length of zero"),
            ("0\n0\n", 0, "has a length of zero"),
        ];
        for (text, line, what) in cases {
            let wrong = opportunities(text).expect_err(text);
            assert_eq!((wrong.line, &*wrong.what), (line, what), "{text}");
        }
        let many = "5\n".repeat(MOST_IN_A_MS + 1);
        assert_eq!(opportunities(&many).map_err(|why| why.line), Err(MOST_IN_A_MS + 1));
    }

    #[test]
    fn no_text_makes_a_panic() {
        let mut random = narrows_qdisc::Random::new(1, "texts");
        let letters =
            ['0', '1', '9', '.', ',', 'e', '-', '#', '\n', ' ', 'n', 'a', '\u{feff}', 'é'];
        for _ in 0..20_000 {
            let length = random.bits() % 30;
            let text: String =
                (0..length).map(|_| letters[random.bits() as usize % letters.len()]).collect();
            if let Ok(ms) = opportunities(&text) {
                assert!(ms.is_sorted() && mean(&ms).as_bps() > 0, "{text:?}");
            }
            if let Ok(found) = rates(&text) {
                assert!(found.mean().as_bps() > 0 && !found.changes().is_empty(), "{text:?}");
                assert!(rates(&found.text()).is_ok(), "{text:?}");
                let _ = found.opportunities(ms(1 + u64::from(random.bits() % 50)));
            }
        }
    }

    #[test]
    fn opportunities_offer_what_the_rates_do_to_within_a_packet() {
        assert_eq!(table(&[(0, 12_000_000)]).opportunities(ms(4)), Ok(vec![1, 2, 3, 4]));
        assert_eq!(table(&[(0, 36_000_000)]).opportunities(ms(2)), Ok(vec![1, 1, 1, 2, 2, 2]));
        let rates = table(&[(0, 7_300_000), (333, 0), (700, 95_000_000), (901, 640_000)]);
        let listed = rates.opportunities(ms(1_500)).expect("it offers something");
        let bits_by = |at: u64| -> u64 {
            let ends = rates.steps[1..].iter().map(|step| step.0.as_ps() / 1_000_000_000);
            let spans = rates.steps.iter().zip(ends.chain([1_500]));
            let ms = |from: u64, to: u64| at.min(to).saturating_sub(from);
            spans.map(|(&(from, bps), to)| bps / 1000 * ms(from.as_ps() / 1_000_000_000, to)).sum()
        };
        for at in 0..1_500 {
            let offered = listed.iter().filter(|&&ms| u64::from(ms) <= at).count() as u64 * 12_000;
            let short = bits_by(at).checked_sub(offered);
            assert!(short.is_some_and(|bits| bits < 24_000), "{at}: {short:?}");
        }
        assert_eq!(listed.last(), Some(&1_500));
        assert!(table(&[(0, 1)]).opportunities(ms(1_000)).is_err());
        assert!(table(&[(0, 1_000_000)]).opportunities(Time::ZERO).is_err());
        assert!(table(&[(0, 8_000_000_000_000)]).opportunities(ms(100_000)).is_err());
    }
}
