//! The bottleneck of [`narrows_link`] for programs in C, and in languages that call C.
//!
//! `include/narrows_link.h` is the documentation: units, errors, who owns what. No call unwinds into
//! C: a panic, which only a bug of narrows can cause, becomes an error.

mod config;
mod queue;

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use narrows_link::{Fate, Link, Outcome, Packet, PushError};
use narrows_qdisc::{DropReason, Ecn, Protocol};
use narrows_units::{Span, Time};

pub use self::config::CConfig;

/// The version of the interface, `NARROWS_LINK_ABI`.
pub const ABI: u32 = 1;

const PAST: c_int = -1;
const TOO_LATE: c_int = -2;
const LENGTH: c_int = -3;
const CODE_POINT: c_int = -4;
const ARGUMENT: c_int = -5;
const BUG: c_int = -6;

/// `narrows_link_packet`; the header says what each member is.
#[allow(missing_docs, reason = "narrows_link.h has them")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CPacket {
    pub payload: *mut c_void,
    pub flow: u64,
    pub bytes: u32,
    pub source: u32,
    pub destination: u32,
    pub source_port: u16,
    pub destination_port: u16,
    pub ecn: u8,
    pub dscp: u8,
    pub protocol: u8,
    pub reserved: [u8; 5],
}

/// `narrows_link_outcome`.
#[allow(missing_docs, reason = "narrows_link.h has them")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct COutcome {
    pub at: u64,
    pub pushed_at: u64,
    pub fate: i32,
    pub reserved: i32,
    pub packet: CPacket,
}

/// `narrows_link_counters`.
#[allow(missing_docs, reason = "narrows_link.h has them")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CCounters {
    pub pushed: u64,
    pub arrived: u64,
    pub marked: u64,
    pub dropped: [u64; DropReason::ALL.len()],
    pub lost: u64,
}

/// `narrows_link`.
pub struct Handle {
    link: Link<Payload>,
    release: Option<Release>,
}

type Release = unsafe extern "C" fn(*mut c_void);

/// A caller's pointer. The caller hears of it if it does not come out.
struct Payload {
    pointer: *mut c_void,
    release: Option<Release>,
}

impl Payload {
    /// Returns the pointer to the caller.
    fn into_pointer(mut self) -> *mut c_void {
        self.release = None;
        self.pointer
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller of `narrows_link_new` says that it may be called with each payload.
            unsafe { release(self.pointer) };
        }
    }
}

/// Creates a link: see `narrows_link.h`.
///
/// # Safety
///
/// `config` must be null or valid, with texts that are null or end with 0. `why` must be null or have
/// room for `why_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_new(
    config: *const CConfig,
    why: *mut c_char,
    why_size: usize,
) -> *mut Handle {
    // SAFETY: the caller's pointers are as the header says.
    let made = guarded(|| unsafe { config::read(config) });
    let made = made.unwrap_or_else(|| Err("a bug of narrows".into()));
    match made {
        Ok((link, release)) => Box::into_raw(Box::new(Handle { link, release })),
        Err(text) => {
            if !why.is_null() && why_size > 0 {
                let mut cut = text.len().min(why_size - 1);
                while !text.is_char_boundary(cut) {
                    cut -= 1;
                }
                // SAFETY: there is room for `why_size` bytes, and `cut` is less.
                unsafe {
                    std::ptr::copy_nonoverlapping(text.as_ptr().cast(), why, cut);
                    *why.add(cut) = 0;
                }
            }
            std::ptr::null_mut()
        }
    }
}

/// Frees a link: see `narrows_link.h`.
///
/// # Safety
///
/// `link` must be null, or come from [`narrows_link_new`] and not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_free(link: *mut Handle) {
    if !link.is_null() {
        // SAFETY: it comes from `Box::into_raw`, and nobody uses it any more.
        guarded(|| drop(unsafe { Box::from_raw(link) }));
    }
}

/// Takes in a burst: see `narrows_link.h`.
///
/// # Safety
///
/// `link` must be null or valid, and `packets` valid for `count` packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_push(
    link: *mut Handle,
    now: u64,
    packets: *const CPacket,
    count: usize,
) -> c_int {
    // SAFETY: the caller's pointer is null or valid, and no other call uses the link.
    let Some(Handle { link, release }) = (unsafe { link.as_mut() }) else { return ARGUMENT };
    if packets.is_null() && count > 0 {
        return ARGUMENT;
    }
    let packets = match count {
        0 => &[],
        // SAFETY: the caller's pointer is valid for `count` packets.
        _ => unsafe { std::slice::from_raw_parts(packets, count) },
    };
    let now = time(now);
    let pushed = guarded(|| {
        for packet in packets {
            let checked = packet.read(()).ok_or(ARGUMENT)?;
            link.check(now, &checked).map_err(code)?;
        }
        for packet in packets {
            let payload = Payload { pointer: packet.payload, release: *release };
            let packet = packet.read(payload).ok_or(ARGUMENT)?;
            link.push(now, packet).map_err(code)?;
        }
        Ok(())
    });
    match pushed {
        Some(Ok(())) => 0,
        Some(Err(code)) => code,
        None => BUG,
    }
}

/// Returns when to pop: see `narrows_link.h`.
///
/// # Safety
///
/// `link` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_next_at(link: *const Handle) -> u64 {
    // SAFETY: the caller's pointer is null or valid.
    let link = unsafe { link.as_ref() };
    link.and_then(|handle| handle.link.next_at()).map_or(u64::MAX, nanoseconds)
}

/// Returns the next packet: see `narrows_link.h`.
///
/// # Safety
///
/// `link` and `out` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_pop(
    link: *mut Handle,
    now: u64,
    out: *mut COutcome,
) -> c_int {
    // SAFETY: the caller's pointer is null or valid, and no other call uses the link.
    let Some(handle) = (unsafe { link.as_mut() }) else { return ARGUMENT };
    if out.is_null() {
        return ARGUMENT;
    }
    match guarded(|| handle.link.pop(time(now))) {
        Some(Some(outcome)) => {
            // SAFETY: the caller's pointer is valid. What was there is plain data, or nothing.
            unsafe { out.write(COutcome::of(outcome)) };
            1
        }
        Some(None) => 0,
        None => BUG,
    }
}

/// Returns what waits: see `narrows_link.h`.
///
/// # Safety
///
/// All pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_backlog(
    link: *mut Handle,
    now: u64,
    packets: *mut u64,
    bytes: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointer is null or valid, and no other call uses the link.
    let Some(handle) = (unsafe { link.as_mut() }) else { return ARGUMENT };
    let Some(backlog) = guarded(|| handle.link.backlog(time(now))) else { return BUG };
    // SAFETY: the caller's pointers are null or valid.
    let (packets, bytes) = unsafe { (packets.as_mut(), bytes.as_mut()) };
    if let Some(packets) = packets {
        *packets = backlog.packets.into();
    }
    if let Some(bytes) = bytes {
        *bytes = backlog.bytes.get();
    }
    0
}

/// Returns the counters: see `narrows_link.h`.
///
/// # Safety
///
/// Both pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_link_count(
    link: *const Handle,
    counters: *mut CCounters,
) -> c_int {
    // SAFETY: the caller's pointers are null or valid.
    let (Some(handle), Some(out)) = (unsafe { (link.as_ref(), counters.as_mut()) }) else {
        return ARGUMENT;
    };
    let found = handle.link.counters();
    *out = CCounters {
        pushed: found.pushed,
        arrived: found.arrived,
        marked: found.marked,
        dropped: found.dropped,
        lost: found.lost,
    };
    0
}

/// Returns a sentence about an error: see `narrows_link.h`.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_link_error(error: c_int) -> *const c_char {
    let text = match error {
        PAST => c"the time is before that of an earlier call",
        TOO_LATE => c"the time is later than 213 days, the end of time",
        LENGTH => c"a packet has 1 to 65535 bytes",
        CODE_POINT => c"a code point is 0 to 63",
        ARGUMENT => c"a null pointer, or an ECN field or a protocol that does not exist",
        BUG => c"a bug of narrows; do not use the link any more",
        _ => c"no error",
    };
    text.as_ptr()
}

impl CPacket {
    /// Reads the packet, with another payload; `None`: a field has a value that does not exist.
    fn read<T>(&self, payload: T) -> Option<Packet<T>> {
        let protocol = match self.protocol {
            0 => Protocol::Other,
            1 => Protocol::Udp,
            2 => Protocol::Tcp,
            _ => return None,
        };
        (self.ecn <= 3).then(|| Packet {
            bytes: self.bytes,
            flow: self.flow,
            ecn: Ecn::from_bits(self.ecn),
            dscp: self.dscp,
            protocol,
            ports: (self.source_port, self.destination_port),
            hosts: (self.source, self.destination),
            payload,
        })
    }
}

impl COutcome {
    fn of(outcome: Outcome<Payload>) -> Self {
        let Outcome { at, pushed_at, fate, packet } = outcome;
        Self {
            at: nanoseconds(at),
            pushed_at: nanoseconds(pushed_at),
            fate: match fate {
                Fate::Arrived => 0,
                Fate::Dropped(DropReason::Overflow) => 1,
                Fate::Dropped(DropReason::Early) => 2,
                Fate::Dropped(DropReason::Forced) => 3,
                Fate::Lost => 4,
            },
            reserved: 0,
            packet: CPacket {
                payload: packet.payload.into_pointer(),
                flow: packet.flow,
                bytes: packet.bytes,
                source: packet.hosts.0,
                destination: packet.hosts.1,
                source_port: packet.ports.0,
                destination_port: packet.ports.1,
                ecn: packet.ecn as u8,
                dscp: packet.dscp,
                protocol: match packet.protocol {
                    Protocol::Other => 0,
                    Protocol::Udp => 1,
                    Protocol::Tcp => 2,
                },
                reserved: [0; 5],
            },
        }
    }
}

fn code(error: PushError) -> c_int {
    match error {
        PushError::Past { .. } => PAST,
        PushError::Never => TOO_LATE,
        PushError::Length => LENGTH,
        PushError::CodePoint => CODE_POINT,
    }
}

fn time(nanoseconds: u64) -> Time {
    Time::ZERO + Span::from_ns(nanoseconds)
}

/// Rounds up, so that a packet is there at the time that the caller reads.
fn nanoseconds(at: Time) -> u64 {
    at.as_ps().div_ceil(1_000)
}

/// Calls a function, and returns `None` if it panics.
fn guarded<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}
