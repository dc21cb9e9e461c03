//! Parts of your own for the simulator: a queue discipline, a congestion control and an application
//! that narrows itself does not have.
//!
//! - [`pi`]: the PI controller, a queue discipline. It obeys the same laws as the disciplines of
//!   narrows.
//! - [`slope`]: a discipline whose drop probability grows with the queue.
//! - [`scalable`]: Scalable TCP, a congestion control.
//! - [`typing`]: a remote shell, an application with two ends.
//!
//! The last three are what `narrows new` copies, so they are files of the Python package.
//!
//! docs/extending.md explains them. `tests/` puts each into a network; `main.rs` puts them into the
//! network of any scenario.

pub mod pi;
#[path = "../../../python/narrows/new/control.rs"]
pub mod scalable;
#[path = "../../../python/narrows/new/queue.rs"]
pub mod slope;
#[path = "../../../python/narrows/new/application.rs"]
pub mod typing;
