//! `narrows_link_config`: from C's numbers and texts to settings.

use std::ffi::{CStr, c_char};

use narrows_link::{Change, Config, Framing, GilbertElliott, Jitter, Link, Loss, trace};
use narrows_units::{Rate, Span};

use crate::{ABI, Payload, Release, queue};

/// `narrows_link_config`; the header says what each member is.
#[allow(missing_docs, reason = "narrows_link.h has them")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CConfig {
    pub abi: u32,
    pub reports_losses: u32,
    pub rate: f64,
    pub delay: f64,
    pub jitter: f64,
    pub jitter_reorders: u32,
    pub frame_overhead: u32,
    pub frame_min: u32,
    pub queue_overhead: u32,
    pub loss: f64,
    pub turns_bad: f64,
    pub turns_good: f64,
    pub queue: *const c_char,
    pub mahimahi: *const c_char,
    pub rates: *const c_char,
    pub seed: u64,
    pub release: Option<Release>,
}

/// Longer than any path, and far below the end of time.
const LONGEST_DELAY_S: f64 = 3600.0;

/// Makes the link.
///
/// # Errors
///
/// Says in a line what is wrong, and with which member.
///
/// # Safety
///
/// `config` must be null or valid, with texts that are null or end with 0.
pub(crate) unsafe fn read(
    config: *const CConfig,
) -> Result<(Link<Payload>, Option<Release>), String> {
    // SAFETY: the caller's pointer is null or valid.
    let given = unsafe { config.as_ref() }.ok_or("config: is NULL")?;
    if given.abi != ABI {
        return Err(format!("abi: is {}, and this library has {ABI}; hint: rebuild", given.abi));
    }
    // SAFETY: the caller's texts are null or end with 0.
    let text = |pointer, name| unsafe { text(pointer, name) };
    let mut settings = Config {
        delay: seconds("delay", given.delay)?,
        framing: Framing {
            overhead: given.frame_overhead,
            min: given.frame_min,
            queue_overhead: given.queue_overhead,
        },
        ..Config::default()
    };
    if let Some(text) = text(given.queue, "queue")? {
        settings.queue = queue::read(text)?;
    }
    if given.jitter != 0.0 {
        let deviation = seconds("jitter", given.jitter)?;
        settings.jitter =
            Some(Jitter { deviation, reorder: given.jitter_reorders != 0, ..Jitter::default() });
    }
    settings.loss = losses(given)?;
    let (mahimahi, rates) = (text(given.mahimahi, "mahimahi")?, text(given.rates, "rates")?);
    let mut changes: Vec<Change> = Vec::new();
    match (mahimahi, rates) {
        (Some(_), Some(_)) => return Err("rates: excludes mahimahi; hint: give one".into()),
        (None, None) => {
            let whole = given.rate.round();
            // Beyond 2^53 not every number is one, and no link is faster than 8 Tbit/s.
            if !(1.0..=8e12).contains(&whole) {
                return Err("rate: must be from 1 to 8e12 bit/s; hint: such as 10e6".into());
            }
            settings.rate = Rate::from_bps(whole as u64).expect("it is above zero");
        }
        _ if given.rate != 0.0 => return Err("rate: excludes a trace; hint: leave it 0".into()),
        (Some(text), None) => {
            let ms = trace::opportunities(text).map_err(|why| format!("mahimahi: {why}"))?;
            settings.rate = trace::mean(&ms);
            settings.opportunities_ms = Some(ms);
        }
        (None, Some(text)) => {
            let rates = trace::rates(text).map_err(|why| format!("rates: {why}"))?;
            settings.rate = rates.mean();
            changes = rates.changes();
        }
    }
    let link = Link::new(&settings, &changes, given.seed).map_err(|why| why.to_string())?;
    let link = if given.reports_losses != 0 { link.report_losses() } else { link };
    Ok((link, given.release))
}

fn losses(given: &CConfig) -> Result<Loss, String> {
    let &CConfig { loss, turns_bad, turns_good, .. } = given;
    for (name, share) in [("loss", loss), ("turns_bad", turns_bad), ("turns_good", turns_good)] {
        if !(0.0..=1.0).contains(&share) {
            return Err(format!("{name}: must be from 0 to 1"));
        }
    }
    if turns_bad == 0.0 && turns_good == 0.0 {
        return Ok(Loss::Each(loss));
    }
    if loss != 0.0 {
        return Err("loss: excludes turns_bad; hint: leave one of them 0".into());
    }
    let states = GilbertElliott { p: turns_bad, r: Some(turns_good), ..GilbertElliott::default() };
    Ok(Loss::Bursts { states })
}

fn seconds(name: &str, seconds: f64) -> Result<Span, String> {
    if (0.0..=LONGEST_DELAY_S).contains(&seconds) {
        Ok(Span::from_secs_f64(seconds))
    } else {
        Err(format!("{name}: must be from 0 to {LONGEST_DELAY_S} s"))
    }
}

/// # Safety
///
/// `pointer` must be null, or point to a text that ends with 0 and lives as long as the result.
unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>, String> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's text ends with 0.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| format!("{name}: is not UTF-8"))
}
