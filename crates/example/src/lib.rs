//! Parts of your own for the simulator: a queue discipline, a congestion control and an application
//! that narrows itself does not have.
//!
//! - [`pi`]: the PI controller, a queue discipline. It obeys the same laws as the disciplines of
//!   narrows.
//! - [`scalable`]: Scalable TCP, a congestion control.
//! - [`typing`]: a remote shell, an application with two ends.
//!
//! docs/extending.md explains them. `tests/` puts each into a network; `main.rs` puts them into the
//! network of any scenario.

pub mod pi;
pub mod scalable;
pub mod typing;
