//! `narrows-gateway detach`: removes what a run left on an interface.

use narrows_gateway::config::Config;

use super::Failure;

#[cfg(feature = "ebpf")]
pub(crate) fn detach(config: &Config) -> Result<(), Failure> {
    if narrows_gateway::kernel::gateway::detach(config).map_err(Failure::refused)? {
        println!("detached from {}", config.interface);
    } else {
        println!("nothing was attached to {}", config.interface);
    }
    Ok(())
}

#[cfg(not(feature = "ebpf"))]
pub(crate) fn detach(config: &Config) -> Result<(), Failure> {
    // The user-space path leaves nothing behind when its process ends.
    println!(
        "nothing was attached to {}: this narrows-gateway was built without the in-kernel data path",
        config.interface
    );
    Ok(())
}
