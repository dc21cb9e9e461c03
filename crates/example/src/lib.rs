//! Parts of one's own for the simulator: a queue discipline, a congestion control and an application,
//! none of which narrows knows.
//!
//! - [`pi`]: the PI controller, a discipline. It obeys the laws that narrows' own obey.
//! - [`scalable`]: Scalable TCP, a congestion control.
//! - [`typing`]: a remote shell, an application with two ends.
//!
//! docs/extending.md goes through them. `tests/` puts each into a network; `main.rs` puts them into
//! the network of any scenario.

pub mod pi;
pub mod scalable;
pub mod typing;
