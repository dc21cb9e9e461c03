//! `narrows-gateway detach`: removes what a run left on an interface.

use narrows_gateway::config::Config;

use super::{Failure, put};

#[cfg(feature = "ebpf")]
pub(crate) fn detach(config: &Config) -> Result<(), Failure> {
    if narrows_gateway::kernel::gateway::detach(config).map_err(Failure::refused)? {
        put(&format!("detached from {}", config.interface));
    } else {
        put(&format!("nothing was attached to {}", config.interface));
    }
    Ok(())
}

#[cfg(not(feature = "ebpf"))]
pub(crate) fn detach(config: &Config) -> Result<(), Failure> {
    // The user-space path leaves nothing behind when its process ends.
    put(&format!(
        "nothing was attached to {}: this narrows-gateway was built without the in-kernel data path",
        config.interface
    ));
    Ok(())
}
