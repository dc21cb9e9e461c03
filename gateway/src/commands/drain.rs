//! `narrows-gateway drain`: takes a gateway off an interface after its open connections have ended.
//!
//! The daemon does this on SIGUSR1. If the daemon is dead, this process takes its place.

use std::time::Duration;

use clap::ArgMatches;
use narrows_gateway::config::Config;
use narrows_gateway::user::publish;

use super::options::Source;
use super::{Failure, options};

pub(crate) fn drain(config: &Config, source: &Source, matches: &ArgMatches) -> Result<(), Failure> {
    let wait = options::span(matches, "wait")?;
    if let Some(pid) = publish::running(config.interface()) {
        return Err(Failure::refused(format!(
            "the gateway of {} is in user space (process {pid}), so nobody else can serve new connections; hint: route its \
             addresses to another machine, wait until narrows-gateway status shows no connections, and end it",
            config.interface()
        )));
    }
    from_the_kernel(config, source, wait)
}

#[cfg(not(feature = "ebpf"))]
fn from_the_kernel(_: &Config, _: &Source, _: Duration) -> Result<(), Failure> {
    Err(Failure::refused(super::BUILT_WITHOUT))
}

#[cfg(feature = "ebpf")]
fn from_the_kernel(config: &Config, source: &Source, wait: Duration) -> Result<(), Failure> {
    use std::time::Instant;

    use super::put;
    use narrows_gateway::kernel::{Gateway, KernelError, View};
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let interface = config.interface();
    let view = View::open(config).map_err(Failure::refused)?;
    let open = || match view.entries().map_or(0, |all| all.states.iter().skip(1).sum::<u64>()) {
        0 => "no connection is open, but who connected in the last 64 s may still ask".into(),
        1 => "1 connection is open".into(),
        n => format!("{n} connections are open"),
    };
    let daemon = match Gateway::running(config) {
        Some(KernelError::Running { pid: Some(pid), .. }) => Some(pid),
        Some(error) => return Err(Failure::refused(error)),
        None => None,
    };
    put(&format!("draining {interface}: {}; new ones go to the kernel's TCP", open()));
    let more = if let Some(pid) = daemon {
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGUSR1)
            .map_err(|error| Failure::fault(format!("process {pid}: {}", error.desc())))?;
        let until = Instant::now() + wait;
        while Gateway::running(config).is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        format!(
            "process {pid} goes on; hint: kill {pid} gives them the time of drain_for, kill -HUP {pid} serves new ones again"
        )
    } else {
        let about = view.about().ok_or_else(|| {
            Failure::refused(format!(
                "{interface}: the settings with which it served are not known; hint: narrows-gateway run takes over, \
                 narrows-gateway detach resets open connections"
            ))
        })?;
        let mut was = about.config();
        was.bpffs.clone_from(&config.bpffs);
        super::run::drain(was, source, wait)?;
        "new ones still go to the kernel's TCP; hint: narrows-gateway drain waits again, narrows-gateway run serves \
         again, narrows-gateway detach resets them"
            .into()
    };
    if view.is_pinned() {
        return Err(Failure::fault(format!("{interface}: {}; {more}", open())));
    }
    put(&format!("detached from {interface}"));
    Ok(())
}
