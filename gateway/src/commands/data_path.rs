//! What `run` does with a data path, in the kernel or in user space.

use std::time::Duration;

use narrows_gateway::config::{Config, OnExit};
use narrows_gateway::keys::Secret;
use narrows_gateway::metrics::Snapshot;

use super::Failure;

/// A running data path, as the daemon sees it.
pub(crate) trait DataPath {
    /// Its mode, as in `status`.
    fn mode(&self) -> &'static str;
    /// Starts its own threads after the privileges are dropped, because each thread has its own
    /// privileges.
    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// Returns whether it has ended by itself, so that nothing is left for the daemon.
    fn is_over(&self) -> bool {
        false
    }
    /// Returns the numbers for the metrics.
    fn snapshot(&self, config: &Config) -> Result<Snapshot, Failure>;
    /// Called about once a second: keys, clocks, expired entries.
    fn tick(&mut self, config: &Config) -> Result<(), Failure>;
    /// Applies a configuration that was read again.
    fn reconfigure(&mut self, config: &Config, secret: Option<Secret>) -> Result<(), Failure>;
    /// Begins to leave: open connections go on, and new ones are not served. `config` serves nobody.
    /// Returns false if there is nothing to wait for, because nobody else can serve the new ones.
    fn drain(&mut self, config: &Config) -> Result<bool, Failure>;
    /// Returns how many connections are open.
    fn open(&self) -> u64;
    /// Returns whether no connection is open. A client that has sent no query counts as open for
    /// this time after its SYN.
    fn is_drained(&self, handshakes: Duration) -> bool;
    /// Ends it: removes everything, or leaves what the next run can take over.
    fn end(self: Box<Self>, how: OnExit) -> Result<(), Failure>;
}
