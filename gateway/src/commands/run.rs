//! `narrows-gateway run`: refuses without changing the machine, or serves until a signal ends it.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use narrows_gateway::config::{Active, Config, Mode, OnExit};
use narrows_gateway::interface::local_addresses;
use narrows_gateway::keys::Secret;
use narrows_gateway::log::{Level, log, set_level};
use narrows_gateway::metrics::Metrics;
#[cfg(feature = "ebpf")]
use narrows_gateway::metrics::Snapshot;
use narrows_gateway::server::ServerError;
use narrows_gateway::signals::{Request, Signals};
use narrows_gateway::{VERSION, passing, privileges, systemd};
use narrows_units::Span;
use serde_json::json;

use super::data_path::DataPath;
use super::options::Source;
#[cfg(feature = "ebpf")]
use super::rechecks::Rechecks;
use super::{Failure, put, user};

/// Runs in the foreground until a signal ends it.
pub(crate) fn run(config: &Config, source: &Source) -> Result<(), Failure> {
    config.validate().map_err(Failure::start)?;
    set_level(config.loglevel);
    let secret = secret(config)?;
    // Before attaching: an occupied port is refused like anything else.
    let listener = config.metrics.map(listen).transpose()?;
    let doing = |what: &str| log(Level::Info, what, json!({ "interface": config.interface() }));
    doing("asking the server");
    // Before signals are blocked: nothing is attached yet, so a signal may end this wait at once.
    let silent = check_servers(config)?;
    // Before any thread, because threads inherit the blocked signals.
    let signals = Signals::new().map_err(Failure::fault)?;
    doing("starting the data path");
    let mut path = start(config, secret)?;
    // Before any thread, because each thread has its own privileges.
    privileges::drop_all().map_err(Failure::fault)?;
    // With metrics of its own from the first scrape on, because the first tick may take seconds.
    let metrics = match listener {
        Some(listener) => {
            let first = path.snapshot(config)?;
            Some(Metrics::serve(listener, first).map_err(Failure::fault)?)
        }
        None => None,
    };
    path.begin()?;

    let mut ready = event("ready", config, path.mode());
    ready["version"] = VERSION.into();
    put(&ready.to_string());
    systemd::notify("READY=1");
    log(Level::Info, "started", json!({ "interface": config.interface(), "mode": path.mode() }));
    finish(path, config.clone(), source, &signals, metrics.as_ref(), silent, None)
}

/// Drains a gateway that its daemon has left attached, for at most this time. `config` is the one
/// with which it served.
#[cfg(feature = "ebpf")]
pub(crate) fn drain(config: Config, source: &Source, at_most: Duration) -> Result<(), Failure> {
    set_level(config.loglevel);
    let secret = secret(&config)?;
    let signals = Signals::new().map_err(Failure::fault)?;
    let now = Config { check_every: Span::ZERO, ..nobody(&config) };
    let path = start_kernel(&now, secret)?;
    privileges::drop_all().map_err(Failure::fault)?;
    // Loading the programs may take seconds, in which nothing is looked after.
    let leaving = Leaving { began: Instant::now(), at_most: Some(at_most), then: OnExit::Keep };
    finish(path, config, source, &signals, None, Silent::default(), Some(leaving))
}

/// Serves until a signal, or the drain that has begun, ends the run; then ends the data path.
fn finish(
    mut path: Box<dyn DataPath>,
    config: Config,
    source: &Source,
    signals: &Signals,
    metrics: Option<&Metrics>,
    silent: Silent,
    leaving: Option<Leaving>,
) -> Result<(), Failure> {
    let served = serve(path.as_mut(), config, source, signals, metrics, silent, leaving);
    systemd::notify("STOPPING=1");
    let how = *served.as_ref().unwrap_or(&OnExit::Detach);
    let ended = path.end(how);
    served?;
    ended?;
    log(
        Level::Info,
        "ended",
        json!({ "attachments": if how == OnExit::Keep { "kept" } else { "removed" } }),
    );
    Ok(())
}

/// The time between the wish to end and the end, while connections are still open.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    began: Instant,
    /// How long it waits; `None`: until no connection is open.
    at_most: Option<Duration>,
    /// What happens to the attachments after that.
    then: OnExit,
}

impl Leaving {
    /// `None` if there is nothing to wait for.
    fn stop(config: &Config) -> Option<Self> {
        let at_most = Duration::from_nanos(config.drain_for.as_ps() / 1000);
        let waits = config.on_exit == OnExit::Detach && !at_most.is_zero();
        waits.then(|| Self { began: Instant::now(), at_most: Some(at_most), then: OnExit::Detach })
    }

    /// How long a client that has sent no query counts as open: half of the time, so that the other
    /// half is there to close its connection.
    fn patience(self) -> Duration {
        self.at_most.map_or(Duration::MAX, |at_most| at_most / 2)
    }

    /// Returns the settings in the meantime: nobody new is served. If open connections are reset
    /// after the time, silent ones get a FIN before.
    fn settings(self, config: &Config) -> Config {
        let mut own = nobody(config);
        if self.then == OnExit::Detach {
            let half = u64::try_from(self.patience().as_nanos()).unwrap_or(u64::MAX);
            own.idle = own.idle.min(Span::from_ps(half.saturating_mul(1000)));
        }
        own
    }

    /// Returns what shall stay, as soon as no connection is open or the time is over.
    fn over(self, path: &dyn DataPath) -> Option<OnExit> {
        let late = self.at_most.is_some_and(|at_most| self.began.elapsed() >= at_most);
        let drained = path.is_drained(self.patience()).then_some(OnExit::Detach);
        drained.or(late.then_some(self.then))
    }
}

/// The configuration, but nobody is served.
fn nobody(config: &Config) -> Config {
    Config { active: Active::NONE, ..config.clone() }
}

/// Ticks and handles signals until one ends the run; returns what shall stay.
fn serve(
    path: &mut dyn DataPath,
    mut config: Config,
    source: &Source,
    signals: &Signals,
    metrics: Option<&Metrics>,
    mut silent: Silent,
    mut leaving: Option<Leaving>,
) -> Result<OnExit, Failure> {
    loop {
        silent.ask_again();
        let wait = if leaving.is_some() { LEAVING_TICK } else { TICK };
        let request = signals.wait(wait).map_err(Failure::fault)?;
        let stop = leaving.filter(|leaving| leaving.at_most.is_some());
        let leaves = match (request, stop) {
            // A second signal ends it at once.
            (Some(Request::End), Some(stop)) => return Ok(stop.then),
            (Some(Request::End), None) => match Leaving::stop(&config) {
                Some(stop) => Some(stop),
                None => return Ok(config.on_exit),
            },
            (Some(Request::Drain), _) if leaving.is_none() => {
                Some(Leaving { began: Instant::now(), at_most: None, then: OnExit::Detach })
            }
            (Some(Request::HandOver), _) => return Ok(OnExit::Keep),
            // A drain ends in this way without an end of the run, but a stop goes on.
            (Some(Request::Reload), None) => {
                leaving = None;
                reload(path, &mut config, source);
                None
            }
            (Some(Request::Drain | Request::Reload) | None, _) => None,
        };
        if let Some(leaves) = leaves {
            leaving = Some(leaves);
            if !path.drain(&nobody(&config))? {
                return Ok(leaves.then);
            }
            let mut said = event("draining", &config, path.mode());
            said["open"] = path.open().into();
            put(&said.to_string());
        }
        let now = leaving.map_or_else(|| config.clone(), |leaving| leaving.settings(&config));
        let ticked = path.tick(&now).and_then(|()| {
            if let Some(metrics) = metrics {
                metrics.tell(path.snapshot(&now)?);
            }
            Ok(())
        });
        if let Err(Failure::Fault(why) | Failure::Refused(why)) = ticked {
            if path.is_over() {
                return Err(Failure::Fault(why));
            }
            log(Level::Error, "tick failed", json!({ "why": why }));
        }
        if let Some(how) = leaving.and_then(|leaving| leaving.over(path)) {
            return Ok(how);
        }
    }
}

/// How often the data path is looked after.
const TICK: Duration = Duration::from_secs(1);
/// The same while the end waits for connections.
const LEAVING_TICK: Duration = Duration::from_millis(200);

/// An invalid configuration changes nothing.
fn reload(path: &mut dyn DataPath, config: &mut Config, source: &Source) {
    let result = source.read().map_err(Failure::refused).and_then(|new| {
        new.validate().map_err(Failure::refused)?;
        servers_here(&new)?;
        let secret = secret(&new)?;
        let mut merged = new;
        let fixed = keep_fixed(config, &mut merged);
        path.reconfigure(&merged, secret)?;
        Ok((merged, fixed))
    });
    match result {
        Ok((new, fixed)) => {
            set_level(new.loglevel);
            *config = new;
            put(&event("reloaded", config, path.mode()).to_string());
            log(Level::Info, "configuration read again", json!({ "active": active(config) }));
            for key in fixed {
                log(Level::Warning, "setting needs a restart", json!({ "key": key }));
            }
        }
        Err(Failure::Refused(why) | Failure::Fault(why)) => {
            log(Level::Error, "configuration not taken", json!({ "why": why }));
        }
        Err(Failure::Quiet) => {}
    }
}

/// Restores what only a restart can change; returns the names of those keys.
fn keep_fixed(old: &Config, new: &mut Config) -> Vec<&'static str> {
    use narrows_gateway::config::table::KEYS;
    let mut kept = Vec::new();
    for key in KEYS.iter().filter(|key| !key.live) {
        if key.show(new) != key.show(old) {
            key.copy(old, new);
            kept.push(key.name);
        }
    }
    kept
}

fn secret(config: &Config) -> Result<Option<Secret>, Failure> {
    config.secret.as_deref().map(Secret::read).transpose().map_err(Failure::start)
}

/// For the in-kernel data path: each server address must belong to this machine.
fn servers_here(config: &Config) -> Result<(), Failure> {
    if config.mode == Mode::User || cfg!(not(feature = "ebpf")) {
        return Ok(());
    }
    let here = local_addresses().map_err(Failure::fault)?;
    let Some(&address) = config.servers.iter().find(|address| !here.contains(address)) else {
        return Ok(());
    };
    let here = here.iter().filter(|address| !address.is_loopback()).copied().collect();
    Err(Failure::start(ServerError::NotHere { address, here }))
}

#[cfg(not(feature = "ebpf"))]
fn check_servers(_: &Config) -> Result<Silent, Failure> {
    Ok(Silent::default())
}

/// For the in-kernel data path: the interface exists, each server address belongs to this machine,
/// and one of them answers over UDP. The others are served as soon as they answer; until then the
/// kernel refuses their clients. A gateway that was left serving is taken over, whatever its server
/// does.
#[cfg(feature = "ebpf")]
fn check_servers(config: &Config) -> Result<Silent, Failure> {
    if config.mode == Mode::User {
        return Ok(Silent::default());
    }
    use narrows_gateway::interface::Interface;
    use narrows_gateway::kernel::pins::Pins;
    use narrows_gateway::server;
    for name in &config.interfaces {
        Interface::find(name).map_err(Failure::start)?;
    }
    servers_here(config)?;
    let wait = Duration::from_nanos(config.server_wait.as_ps() / 1000);
    let (mut silent, mut why) = (Silent::default(), None);
    for &address in &config.servers {
        let server = SocketAddr::new(address, config.port);
        if let Err(error) = server::answers(server, wait) {
            silent.servers.push_back(server);
            why = Some(error);
        }
    }
    let left = Pins::of(&config.bpffs, config.interface()).directory().exists();
    match why {
        Some(error) if silent.servers.len() == config.servers.len() && !left => {
            Err(Failure::start(error))
        }
        _ => {
            for server in &silent.servers {
                log(Level::Warning, "server address does not answer", json!({ "server": server }));
            }
            Ok(silent)
        }
    }
}

/// Server addresses that did not answer at the start.
#[derive(Debug, Default)]
struct Silent {
    servers: VecDeque<SocketAddr>,
    asked_at: Option<Instant>,
}

impl Silent {
    /// Asks the next one of them from time to time, until it answers.
    fn ask_again(&mut self) {
        let often = Duration::from_secs(5);
        if self.asked_at.is_some_and(|at| at.elapsed() < often) {
            return;
        }
        self.asked_at = Some(Instant::now());
        let Some(server) = self.servers.pop_front() else { return };
        match narrows_gateway::server::answers(server, Duration::from_millis(200)) {
            Ok(()) => log(Level::Info, "server address answers now", json!({ "server": server })),
            Err(_) => self.servers.push_back(server),
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        let text = error.to_string().to_lowercase();
        let why = text.split(" (os error").next().unwrap_or(&text);
        let why = format!("metrics: {address}: {why}; hint: name a free port");
        if passing::error(&error) { Failure::Fault(why) } else { Failure::Refused(why) }
    })
}

/// Prints a line on stdout: everything is ready, or new settings are in force.
fn event(name: &str, config: &Config, mode: &str) -> serde_json::Value {
    json!({
        "event": name, "interface": config.interface(), "mode": mode, "pid": std::process::id(),
        "servers": config.servers, "port": config.port, "active": active(config),
    })
}

/// Whom the configuration serves, as the key `active` shows it.
fn active(config: &Config) -> serde_json::Value {
    use narrows_gateway::config::table::key;
    let shown = key("active").map(|key| key.show(config)).unwrap_or_default();
    serde_json::from_str(&shown).unwrap_or_default()
}

/// Starts the data path that the configuration asks for.
fn start(config: &Config, secret: Option<Secret>) -> Result<Box<dyn DataPath>, Failure> {
    match config.mode {
        Mode::User => user::start(config, secret),
        Mode::Native | Mode::Generic | Mode::Auto => start_kernel(config, secret),
    }
}

#[cfg(not(feature = "ebpf"))]
fn start_kernel(config: &Config, secret: Option<Secret>) -> Result<Box<dyn DataPath>, Failure> {
    if config.mode == Mode::Auto {
        log(
            Level::Warning,
            "no in-kernel data path",
            json!({ "why": "built without the feature ebpf", "mode": "user" }),
        );
        return user::start(config, secret);
    }
    Err(Failure::refused(format!(
        "mode: {} needs the in-kernel data path, and this narrows-gateway was built without it; hint: make gateway builds one that has it",
        config.mode
    )))
}

#[cfg(feature = "ebpf")]
fn start_kernel(config: &Config, secret: Option<Secret>) -> Result<Box<dyn DataPath>, Failure> {
    use narrows_gateway::caveats::Facts;
    use narrows_gateway::interface::Interface;
    use narrows_gateway::kernel::Gateway;
    use narrows_gateway::kernel::links::XdpMode;
    use narrows_gateway::routes;
    let interfaces =
        config.interfaces.iter().map(|name| Interface::find(name)).collect::<Result<Vec<_>, _>>();
    let interfaces = interfaces.map_err(Failure::start)?;
    // Before attaching, which may change some of it.
    let facts: Vec<Facts> = interfaces.iter().map(Facts::of).collect();
    match Gateway::start(config, &interfaces, secret) {
        Ok((gateway, started)) => {
            if started.taken_over {
                let fields = json!({ "maps": started.reused, "maps_anew": started.replaced });
                log(Level::Info, "taken over", fields);
            }
            let native = gateway.mode() == XdpMode::Native;
            let of_one = |facts: &Facts| facts.caveats(config.mode, native);
            let mut all: Vec<String> = facts.iter().flat_map(of_one).collect();
            all.dedup();
            for what in all.into_iter().chain(routes::caveats(&interfaces)) {
                log(
                    Level::Warning,
                    "caveat",
                    json!({ "mode": gateway.mode().name(), "what": what }),
                );
            }
            let rechecks = Rechecks::ready(config, &gateway.interfaces()[0]);
            Ok(Box::new(InKernel { gateway, rechecks }))
        }
        // User space is no alternative: it needs addresses that do not belong to this machine, and
        // these do.
        Err(error) => Err(Failure::start(error)),
    }
}

#[cfg(feature = "ebpf")]
struct InKernel {
    gateway: narrows_gateway::kernel::Gateway,
    rechecks: Rechecks,
}

#[cfg(feature = "ebpf")]
impl DataPath for InKernel {
    fn mode(&self) -> &'static str {
        self.gateway.mode().name()
    }

    fn snapshot(&self, config: &Config) -> Result<Snapshot, Failure> {
        use narrows_gateway::kernel::sweep::STATES;
        let states = STATES.iter().copied().zip(self.gateway.swept().states).skip(1).collect();
        Ok(Snapshot {
            interface: config.interface().to_owned(),
            mode: self.mode().into(),
            counters: self.gateway.counters().map_err(Failure::fault)?,
            latencies: self.gateway.latencies().map_err(Failure::fault)?,
            states,
            room: config.cache.connections.into(),
            active: config.active.any(),
            share: self.gateway.share().map_err(Failure::fault)?.percent() / 100.0,
            checks: self.rechecks.last(),
        })
    }

    fn is_over(&self) -> bool {
        !self.gateway.is_attached()
    }

    fn tick(&mut self, config: &Config) -> Result<(), Failure> {
        if self.is_over() {
            return Err(Failure::fault(format!(
                "{} is gone, or somebody took the programs off it; hint: narrows-gateway run attaches them again",
                config.interfaces.join(" or ")
            )));
        }
        self.gateway.refresh(config).map_err(Failure::fault)?;
        let swept = self.gateway.sweep(config).map_err(Failure::fault)?;
        if let Some(swept) = swept.filter(|swept| swept.expired + swept.closed > 0) {
            log(Level::Debug, "swept", json!({ "expired": swept.expired, "closed": swept.closed }));
        }
        if self.rechecks.tick(config) {
            self.gateway.keep_checks(&self.rechecks.last()).map_err(Failure::fault)?;
        }
        Ok(())
    }

    fn reconfigure(&mut self, config: &Config, secret: Option<Secret>) -> Result<(), Failure> {
        self.gateway.reconfigure(config, secret).map_err(Failure::fault)?;
        self.rechecks.reconfigure(config);
        Ok(())
    }

    fn drain(&mut self, config: &Config) -> Result<bool, Failure> {
        self.gateway.reconfigure(config, None).map_err(Failure::fault)?;
        Ok(true)
    }

    fn open(&self) -> u64 {
        self.gateway.open()
    }

    fn is_drained(&self, handshakes: Duration) -> bool {
        self.gateway.is_drained(handshakes)
    }

    fn end(mut self: Box<Self>, how: OnExit) -> Result<(), Failure> {
        self.rechecks.end();
        match how {
            OnExit::Detach => self.gateway.detach().map_err(Failure::fault),
            OnExit::Keep => Ok(()),
        }
    }
}
