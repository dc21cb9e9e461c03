//! Queues and congestion controls whose functions have the form of C.

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::Arc;

use narrows_qdisc::{Actions, Backlog, Chooser, Decision, PacketView};
use narrows_units::settings::Given;
use narrows_units::{Rate, Time};

use crate::abi::{
    CAck, CActions, CControl, CQueue, CSetting, CStart, Create, Decide, Destroy, Hear, NONE,
};
use crate::library::Loaded;
use crate::{Call, FromOutside, Sending, Short, Steer};

/// The state of a part of a shared object, which stays loaded as long.
pub(crate) struct State {
    state: *mut c_void,
    destroy: Option<Destroy>,
    _loaded: Arc<Loaded>,
}

// SAFETY: a run uses a part from one thread at a time, and hands it on whole. The header says that
// the state belongs to narrows until `destroy`.
unsafe impl Send for State {}
// SAFETY: no method that takes `&self` reaches the state, except `ready_at`, which the run that has
// the queue calls.
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: `create` made this state, and nothing uses it afterwards.
            unsafe { destroy(self.state) }
        }
    }
}

/// A queue of a shared object, in its full form.
pub(crate) struct Choosing {
    state: State,
    queue: CQueue,
    waiting: usize,
    /// Room for the answers, at least as long as what waits.
    dropped: Vec<u64>,
    marked: Vec<u64>,
}

const DEFAULT_LIMIT: u32 = 1000;
const LONGEST_ERROR: usize = 512;

impl State {
    /// Creates the state of a part of a shared object. `rate`: the rate of its line in bit/s, 0 for
    /// none.
    fn create(
        (create, destroy): (Option<Create>, Option<Destroy>),
        loaded: &Arc<Loaded>,
        settings: &[Given],
        rate: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let text = |text: &str| CString::new(text.replace('\0', "?")).unwrap_or_default();
        let texts: Vec<(CString, CString)> =
            settings.iter().map(|setting| (text(&setting.key), text(&setting.text))).collect();
        let settings: Vec<CSetting> = texts
            .iter()
            .zip(settings)
            .map(|((key, text), setting)| CSetting {
                key: key.as_ptr(),
                text: text.as_ptr(),
                number: setting.number.unwrap_or(f64::NAN),
            })
            .collect();
        let mut error = [0_u8; LONGEST_ERROR];
        let start = CStart {
            settings: settings.as_ptr(),
            settings_count: settings.len(),
            seed,
            rate,
            error: error.as_mut_ptr().cast(),
            // The last byte stays zero.
            error_length: LONGEST_ERROR - 1,
        };
        let create = create.ok_or("has no create")?;
        // SAFETY: `start` and all that it points to live until the call returns.
        let state = unsafe { create(&raw const start) };
        if state.is_null() {
            let said = CStr::from_bytes_until_nul(&error).unwrap_or_default();
            let said = said.to_string_lossy();
            let said = if said.is_empty() { "create() returned NULL" } else { said.trim() };
            return Err(said.replace(char::is_control, " "));
        }
        Ok(Self { state, destroy, _loaded: Arc::clone(loaded) })
    }
}

impl CQueue {
    /// Creates the state of a queue of a shared object.
    ///
    /// # Errors
    ///
    /// Returns what the queue says if it refuses the settings.
    pub(crate) fn create(
        self,
        loaded: &Arc<Loaded>,
        settings: &[Given],
        rate: Rate,
        seed: u64,
    ) -> Result<State, String> {
        State::create((self.create, self.destroy), loaded, settings, rate.as_bps(), seed)
    }

    /// Returns the most packets that wait in its short form.
    pub(crate) fn most(self) -> u32 {
        if self.limit == 0 { DEFAULT_LIMIT } else { self.limit }
    }

    /// Returns its short form with a state.
    pub(crate) fn short(self, state: State) -> Bare<State> {
        Bare { admit: self.admit, release: self.release, state: state.state, _keeps: state }
    }

    /// Returns its full form with a state.
    pub(crate) fn full(self, state: State) -> Choosing {
        Choosing { state, queue: self, waiting: 0, dropped: Vec::new(), marked: Vec::new() }
    }
}

#[inline]
fn decision(answer: c_int, call: &str) -> Result<Decision, FromOutside> {
    match answer {
        0 => Ok(Decision::Pass),
        1 => Ok(Decision::Mark),
        2 => Ok(Decision::Drop),
        _ => Err(format!("{call} returned {answer}, which is no decision (0, 1 or 2)").into()),
    }
}

#[inline]
fn decide(
    function: Option<Decide>,
    call: &str,
    state: *mut c_void,
    backlog: Backlog,
    now: Time,
    packet: &PacketView,
) -> Result<Decision, FromOutside> {
    let Some(function) = function else { return Ok(Decision::Pass) };
    let (packets, bytes) = (backlog.packets, backlog.bytes.get());
    // SAFETY: the function has this form, by the header; the packet lives until it returns.
    let answer = unsafe { function(state, packets, bytes, now.as_ps(), packet) };
    decision(answer, call)
}

impl Choosing {
    /// Calls a function with room for actions, and takes these over.
    fn act<T>(
        &mut self,
        actions: &mut Actions,
        call: impl FnOnce(&State, *mut CActions) -> T,
    ) -> Result<T, FromOutside> {
        if self.dropped.len() < self.waiting {
            let room = 2 * self.waiting;
            self.dropped.resize(room, 0);
            self.marked.resize(room, 0);
        }
        let mut room = CActions {
            dropped: self.dropped.as_mut_ptr(),
            dropped_count: 0,
            marked: self.marked.as_mut_ptr(),
            marked_count: 0,
        };
        let answer = call(&self.state, &raw mut room);
        let (Some(dropped), Some(marked)) =
            (self.dropped.get(..room.dropped_count), self.marked.get(..room.marked_count))
        else {
            return Err("dropped or marked more packets than wait".into());
        };
        if room.dropped_count + room.marked_count > 0 {
            actions.dropped.extend(dropped);
            actions.marked.extend(marked);
            self.waiting = self.waiting.saturating_sub(dropped.len());
        }
        Ok(answer)
    }
}

impl Chooser for Choosing {
    type Fault = FromOutside;

    fn enqueue(
        &mut self,
        now: Time,
        packet: &PacketView,
        actions: &mut Actions,
    ) -> Result<Decision, FromOutside> {
        let Some(enqueue) = self.queue.enqueue else {
            return Err("has no enqueue".into());
        };
        self.waiting += 1;
        // SAFETY: as in `decide`; there is room for an action on each packet that waits.
        let answer = self.act(actions, |state, room| unsafe {
            enqueue(state.state, now.as_ps(), packet, room)
        })?;
        let answer = decision(answer, "enqueue")?;
        if answer == Decision::Drop {
            self.waiting = self.waiting.saturating_sub(1);
        }
        Ok(answer)
    }

    fn dequeue(&mut self, now: Time, actions: &mut Actions) -> Result<Option<u64>, FromOutside> {
        let Some(dequeue) = self.queue.dequeue else {
            return Err("has no dequeue".into());
        };
        // SAFETY: as in `enqueue`.
        let handle =
            self.act(actions, |state, room| unsafe { dequeue(state.state, now.as_ps(), room) })?;
        if handle == NONE {
            return Ok(None);
        }
        self.waiting = self.waiting.saturating_sub(1);
        Ok(Some(handle))
    }

    fn ready_at(&mut self, now: Time) -> Result<Option<Time>, FromOutside> {
        let Some(ready_at) = self.queue.ready_at else { return Ok(None) };
        // SAFETY: the function has this form, by the header.
        let at = unsafe { ready_at(self.state.state, now.as_ps()) };
        Ok((at != NONE).then(|| Time::from_ps(at)))
    }
}

/// Functions of C with their state: the short form. `K` keeps both valid.
#[derive(Debug)]
pub struct Bare<K> {
    admit: Option<Decide>,
    release: Option<Decide>,
    state: *mut c_void,
    _keeps: K,
}

// SAFETY: as for `State`; whoever calls `Bare::at` answers for it.
unsafe impl<K: Send> Send for Bare<K> {}
// SAFETY: no method that takes `&self` reaches the state.
unsafe impl<K: Sync> Sync for Bare<K> {}

impl<K> Bare<K> {
    /// Makes a short form of functions that are compiled already, by their addresses (0: none).
    ///
    /// As with [`Library::load`](crate::Library::load), the user has asked for this code and answers
    /// for it: the functions must have the form of `admit` and `release` in `narrows.h`. They and
    /// the state must stay valid as long as `keeps`, and nothing else may use the state while the
    /// queue runs.
    pub fn at(admit: usize, release: usize, state: usize, keeps: K) -> Self {
        // SAFETY: the user answers for the form, as above; zero is sorted out.
        let function = |address: usize| unsafe {
            (address != 0).then(|| std::mem::transmute::<usize, Decide>(address))
        };
        let (admit, release) = (function(admit), function(release));
        Self { admit, release, state: state as *mut c_void, _keeps: keeps }
    }

    /// Returns whether there is a `release`.
    pub fn releases(&self) -> bool {
        self.release.is_some()
    }
}

impl<K: Send + Sync> Short for Bare<K> {
    fn admit(
        &mut self,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside> {
        decide(self.admit, "admit", self.state, backlog, now, packet)
    }

    fn release(
        &mut self,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside> {
        decide(self.release, "release", self.state, backlog, now, packet)
    }
}

/// The functions of a congestion control in C, with their state. `K` keeps both valid.
#[derive(Debug)]
pub struct BareControl<K> {
    /// In the order of [`Call::ALL`].
    calls: [Option<Hear>; 8],
    owns_window: bool,
    state: *mut c_void,
    _keeps: K,
}

// SAFETY: as for `Bare`.
unsafe impl<K: Send> Send for BareControl<K> {}
// SAFETY: no method that takes `&self` reaches the state.
unsafe impl<K: Sync> Sync for BareControl<K> {}

impl<K> BareControl<K> {
    /// Makes a control of functions that are compiled already, by their addresses (0: none) in the
    /// order of [`Call::ALL`]. What [`Bare::at`] says about them is true here as well.
    pub fn at(calls: [usize; 8], owns_window: bool, state: usize, keeps: K) -> Self {
        // SAFETY: the user answers for the form; zero is sorted out.
        let function = |address: usize| unsafe {
            (address != 0).then(|| std::mem::transmute::<usize, Hear>(address))
        };
        Self { calls: calls.map(function), owns_window, state: state as *mut c_void, _keeps: keeps }
    }
}

impl BareControl<State> {
    /// Creates a congestion control of a shared object.
    ///
    /// # Errors
    ///
    /// Returns what the control says if it refuses the settings.
    pub(crate) fn create(
        control: CControl,
        loaded: &Arc<Loaded>,
        settings: &[Given],
        seed: u32,
    ) -> Result<Self, String> {
        let made = (control.create, control.destroy);
        let state = State::create(made, loaded, settings, 0, seed.into())?;
        let owns_window = control.owns_window != 0;
        Ok(Self { calls: control.calls, owns_window, state: state.state, _keeps: state })
    }
}

impl<K: Send + Sync> Steer for BareControl<K> {
    fn call(&mut self, call: Call, heard: &CAck, sending: &mut Sending) -> Result<(), FromOutside> {
        if let Some(function) = self.calls[call as usize] {
            // SAFETY: the function has this form, by the header; both structs live until it returns.
            unsafe { function(self.state, heard, sending) }
        }
        Ok(())
    }

    fn handles(&self, call: Call) -> bool {
        self.calls[call as usize].is_some()
    }

    fn owns_window(&self) -> bool {
        self.owns_window
    }
}
