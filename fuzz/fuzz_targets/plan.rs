//! The simulator: it refuses a plan, or runs it and gives its tables and captures, whatever the
//! plan says.
//!
//! The input chooses one of the plans in `plans/`, and then edits of it. Each edit takes a value of
//! the plan and changes it, removes it, or puts another in its place. So almost all inputs are
//! sound plans except in one or two places; arbitrary JSON never is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_sim::Simulation;
use narrows_sim::plan::Plan;
use serde_json::Value;

const PLANS: [&str; 2] = [include_str!("../plans/dns.json"), include_str!("../plans/kinds.json")];

/// The events of a run: enough for each application to do all that it can do.
const EVENTS: u64 = 30_000;
/// The highest count that an edit sets; the plans' own counts are lower. Time and memory grow with
/// counts, and only the scenario language limits them.
const MOST: u64 = 300;

fuzz_target!(|input: &[u8]| {
    let Some((&first, edits)) = input.split_first() else { return };
    let text = PLANS[usize::from(first) % PLANS.len()];
    let mut plan: Value = serde_json::from_str(text).expect("the files are JSON");
    for edit in edits.chunks_exact(8).take(6) {
        let place = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        let other = usize::from(u16::from_le_bytes([edit[2], edit[3]]));
        let number = u32::from_le_bytes([edit[4], edit[5], edit[6], 0]);
        change(&mut plan, place, other, edit[7], number.into());
    }
    let Ok(mut plan) = serde_json::from_value::<Plan>(plan) else { return };
    plan.event_limit = EVENTS;
    let captures = plan.captures.clone();
    let Ok(mut simulation) = Simulation::new(plan) else { return };
    while !simulation.advance(EVENTS) {}
    let rows: Vec<_> = simulation.tables();
    assert!(!rows.is_empty(), "each run has tables");
    for capture in &captures {
        simulation.captured_by(capture);
    }
});

/// Changes the value at `place`, counted through the whole plan. `other` is the place of another
/// value.
fn change(plan: &mut Value, place: usize, other: usize, how: u8, number: u64) {
    let mut pointers = Vec::new();
    collect(plan, &mut String::new(), &mut pointers);
    let pointer = &pointers[place % pointers.len()];
    let from = plan.pointer(&pointers[other % pointers.len()]).cloned();
    let Some(value) = plan.pointer_mut(pointer) else { return };
    match how % 8 {
        0 => scale(value, number),
        1 => set(value, number % 4),
        2 => set(value, number % MOST),
        3 => *value = Value::Null,
        4 => *value = from.expect("it was just found"),
        5 => *value = Value::Bool(number % 2 == 1),
        6 => remove(value, number as usize),
        _ => repeat(value, number as usize),
    }
}

/// Collects the pointers to all places of a plan below the top, in order.
fn collect(value: &Value, pointer: &mut String, pointers: &mut Vec<String>) {
    let length = pointer.len();
    let mut below = |key: &str, value| {
        pointer.push('/');
        pointer.push_str(key);
        pointers.push(pointer.clone());
        collect(value, pointer, pointers);
        pointer.truncate(length);
    };
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value));
        }
        _ => {}
    }
}

/// Scales a quantity, such as a time or a rate, down or up. A count stays a count: at most `MOST`.
fn scale(value: &mut Value, number: u64) {
    let Some(quantity) = value.as_u64() else { return set(value, number) };
    let scaled = (u128::from(quantity) * u128::from(number)) >> 12;
    let most = if quantity <= MOST { MOST } else { u64::MAX };
    *value = u64::try_from(scaled).unwrap_or(most).min(most).into();
}

fn set(value: &mut Value, number: u64) {
    *value = match value {
        Value::Number(old) if old.is_f64() => (number as f64 / 100.0).into(),
        _ => number.into(),
    };
}

/// Removes an entry.
fn remove(value: &mut Value, which: usize) {
    match value {
        Value::Array(entries) if !entries.is_empty() => drop(entries.remove(which % entries.len())),
        Value::Object(entries) if !entries.is_empty() => {
            let key = entries.keys().nth(which % entries.len()).cloned();
            entries.remove(&key.expect("there is one at each place"));
        }
        _ => {}
    }
}

/// Appends a copy of an entry.
fn repeat(value: &mut Value, which: usize) {
    if let Value::Array(entries) = value
        && !entries.is_empty()
    {
        let entry = entries[which % entries.len()].clone();
        entries.push(entry);
    }
}
