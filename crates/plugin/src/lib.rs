//! Queues and congestion controls from outside: written in C, or in any language that exports
//! functions of C (`include/narrows.h`), and whatever else implements [`Short`],
//! [`Chooser`](narrows_qdisc::Chooser) or [`Steer`].
//!
//! A queue from outside decides, and this crate keeps the packets: what has a [`Short`] or a
//! `Chooser` behind it is a [`Qdisc`](narrows_qdisc::Qdisc) that checks each answer. The first error
//! goes to [`Faults`], where whoever runs the simulation finds it. From then on the queue passes
//! everything, first in, first out, until the run has been ended. A congestion control decides about
//! TCP's window and pace in the same way, and what it set last stays after an error.

mod abi;
mod control;
mod faults;
mod full;
mod library;
mod native;
mod short;

pub use abi::{ABI, CAck, Decide, Hear};
pub use control::{Call, Reno, Sending, Steer, SteeredControl};
pub use faults::{Fault, Faults, FromOutside, Part};
pub use full::full_queue;
pub use library::{Library, LoadError, Offered, OfferedControl};
pub use native::{Bare, BareControl};
pub use short::{Short, short_queue};
