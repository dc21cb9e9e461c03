//! `narrows-gateway detach`: removes what a run left on an interface.

use narrows_gateway::config::Config;
#[cfg(feature = "ebpf")]
use narrows_gateway::interface::Interface;
use narrows_gateway::user::publish::{self, PublishError};

use super::{Failure, put};

pub(crate) fn detach(config: &Config) -> Result<(), Failure> {
    // A gateway in user space leaves nothing behind when its process ends. While it runs, this
    // command refuses and names the process.
    if let Some(pid) = publish::running(config.interface()) {
        let interface = config.interface().to_owned();
        return Err(Failure::refused(PublishError::Running { interface, pid }));
    }
    from_the_kernel(config)
}

#[cfg(feature = "ebpf")]
fn from_the_kernel(config: &Config) -> Result<(), Failure> {
    let detached = narrows_gateway::kernel::gateway::detach(config).map_err(Failure::refused)?;
    if let Ok(interface) = Interface::find(config.interface()) {
        super::deep::clear(config, interface.index);
    }
    if detached {
        put(&format!("detached from {}", config.interface()));
    } else {
        // If the interface is gone, so is everything on it; but the name may also be mistyped.
        match Interface::find(config.interface()) {
            Ok(_) => put(&format!("nothing was attached to {}", config.interface())),
            Err(error) => put(&format!("nothing was attached: {error}")),
        }
    }
    Ok(())
}

#[cfg(not(feature = "ebpf"))]
fn from_the_kernel(config: &Config) -> Result<(), Failure> {
    put(&format!(
        "nothing was attached to {}: this narrows-gateway was built without the in-kernel data path",
        config.interface()
    ));
    Ok(())
}
