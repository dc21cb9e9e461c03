//! `include/narrows.h`, in Rust. The header's comments say what each member means; a test compiles
//! it and compares sizes and places. `narrows_packet` is [`PacketView`].

use std::ffi::{c_char, c_int, c_void};

use narrows_qdisc::PacketView;

use crate::Sending;

/// `NARROWS_ABI`
pub const ABI: u32 = 2;
/// `NARROWS_NONE`, `NARROWS_NEVER`
pub(crate) const NONE: u64 = u64::MAX;

/// `admit` and `release` of `narrows_queue`
pub type Decide = unsafe extern "C" fn(*mut c_void, u32, u64, u64, *const PacketView) -> c_int;

pub(crate) type Create = unsafe extern "C" fn(*const CStart) -> *mut c_void;
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);

/// `narrows_setting`
#[repr(C)]
pub(crate) struct CSetting {
    pub(crate) key: *const c_char,
    pub(crate) text: *const c_char,
    pub(crate) number: f64,
}

/// `narrows_start`
#[repr(C)]
pub(crate) struct CStart {
    pub(crate) settings: *const CSetting,
    pub(crate) settings_count: usize,
    pub(crate) seed: u64,
    pub(crate) rate: u64,
    pub(crate) error: *mut c_char,
    pub(crate) error_length: usize,
}

/// `narrows_actions`
#[repr(C)]
pub(crate) struct CActions {
    pub(crate) dropped: *mut u64,
    pub(crate) dropped_count: usize,
    pub(crate) marked: *mut u64,
    pub(crate) marked_count: usize,
}

/// `narrows_queue`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CQueue {
    pub(crate) name: *const c_char,
    pub(crate) create: Option<Create>,
    pub(crate) destroy: Option<Destroy>,
    pub(crate) limit: u32,
    pub(crate) admit: Option<Decide>,
    pub(crate) release: Option<Decide>,
    pub(crate) enqueue: Option<Enqueue>,
    pub(crate) dequeue: Option<unsafe extern "C" fn(*mut c_void, u64, *mut CActions) -> u64>,
    pub(crate) ready_at: Option<unsafe extern "C" fn(*mut c_void, u64) -> u64>,
}

// SAFETY: the name and the functions are constants of an object that stays loaded.
unsafe impl Send for CQueue {}
// SAFETY: as above.
unsafe impl Sync for CQueue {}

pub(crate) type Enqueue =
    unsafe extern "C" fn(*mut c_void, u64, *const PacketView, *mut CActions) -> c_int;

/// `narrows_ack`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CAck {
    /// `now`, in picoseconds, like the spans that follow; `u64::MAX`: not known
    pub now: u64,
    /// `rtt`
    pub rtt: u64,
    /// `smoothed_rtt`
    pub smoothed_rtt: u64,
    /// `shortest_rtt`
    pub shortest_rtt: u64,
    /// `idle`
    pub idle: u64,
    /// `delivery_rate`, in bit/s; NaN: not known
    pub delivery_rate: f64,
    /// `acked`, in segments, like the counts that follow
    pub acked: u32,
    /// `lost`
    pub lost: u32,
    /// `marked`
    pub marked: u32,
    /// `in_flight`
    pub in_flight: u32,
    /// `prior_in_flight`
    pub prior_in_flight: u32,
    /// `delivered`
    pub delivered: u32,
    /// `prior_delivered`
    pub prior_delivered: u32,
    /// `mss`, in bytes
    pub mss: u32,
    /// `state`
    pub state: u8,
    /// `app_limited`
    pub app_limited: u8,
    /// `window_limited`
    pub window_limited: u8,
    /// `reserved`
    pub reserved: [u8; 5],
}

impl Default for CAck {
    fn default() -> Self {
        Self {
            now: NONE,
            rtt: NONE,
            smoothed_rtt: NONE,
            shortest_rtt: NONE,
            idle: 0,
            delivery_rate: f64::NAN,
            acked: 0,
            lost: 0,
            marked: 0,
            in_flight: 0,
            prior_in_flight: 0,
            delivered: 0,
            prior_delivered: 0,
            mss: 0,
            state: 0,
            app_limited: 0,
            window_limited: 0,
            reserved: [0; 5],
        }
    }
}

/// `on_ack` and the other functions of `narrows_control`
pub type Hear = unsafe extern "C" fn(*mut c_void, *const CAck, *mut Sending);

/// `narrows_control`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CControl {
    pub(crate) name: *const c_char,
    pub(crate) create: Option<Create>,
    pub(crate) destroy: Option<Destroy>,
    pub(crate) owns_window: c_int,
    /// In the order of `Call::ALL`.
    pub(crate) calls: [Option<Hear>; 8],
}

// SAFETY: as for `CQueue`.
unsafe impl Send for CControl {}
// SAFETY: as for `CQueue`.
unsafe impl Sync for CControl {}

/// `narrows_offer`
#[repr(C)]
pub(crate) struct COffer {
    pub(crate) abi: u32,
    pub(crate) queue_size: u32,
    pub(crate) queues: *const CQueue,
    pub(crate) queues_count: usize,
    pub(crate) control_size: usize,
    pub(crate) controls: *const CControl,
    pub(crate) controls_count: usize,
}
