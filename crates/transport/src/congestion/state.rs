//! The congestion state of a sender: whether it repairs losses or reduces its window.

/// The congestion state (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is dubious.
    #[default]
    Open,
    /// There are duplicate acknowledgements or SACKs, but no loss was found yet.
    Disorder,
    /// The window shrinks because of an ECN echo.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a timeout.
    Loss,
}
