//! `run` with the user-space data path: opens the link, then serves in a separate thread.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use narrows_gateway::config::table::KEYS;
use narrows_gateway::config::{Config, OnExit, UserLink};
use narrows_gateway::core::{Counter, Latencies, Now, Settings, State};
use narrows_gateway::keys::{Secret, boot_ns, previous_until_s, unix_s, wall_offset_ns};
use narrows_gateway::log::{Level, log};
use narrows_gateway::metrics::Snapshot;
use narrows_gateway::server;
use narrows_gateway::user::link::{NetworkLink, PacketLink, TunLink};
use narrows_gateway::user::publish::{PublishError, Publisher};
use narrows_gateway::user::{DataPath as Path, PathCounters};
use serde_json::{Value, json};

use super::Failure;
use super::data_path::DataPath;
use super::picture::{About, Picture};

/// How long the thread waits at most before it checks whether to end.
const TURN: Duration = Duration::from_millis(200);

/// Opens everything that needs privileges. It serves nothing before [`DataPath::begin`].
pub(crate) fn start(config: &Config, secret: Option<Secret>) -> Result<Box<dyn DataPath>, Failure> {
    if config.user.upstream.is_empty() {
        return Err(Failure::refused(
            "user.upstream: is not set, and the user-space data path needs it; hint: --user-upstream 127.0.0.1:5353, \
             where the DNS server listens",
        ));
    }
    let secret = secret.map_or_else(Secret::random, Ok).map_err(Failure::start)?;
    let publisher = match Publisher::bind(config.interface()) {
        Ok(publisher) => Some(publisher),
        Err(error @ PublishError::Running { .. }) => return Err(Failure::start(error)),
        // Only root may prevent a gateway from running.
        Err(error) => {
            log(Level::Warning, "status cannot be shown", json!({ "why": error.to_string() }));
            None
        }
    };
    check_upstream(config)?;
    let link = match config.user.link {
        UserLink::Tun => NetworkLink::Tun(
            TunLink::open(config.interface(), &config.servers).map_err(Failure::start)?,
        ),
        UserLink::Packet => NetworkLink::Packet(
            PacketLink::open(config.interface(), &config.servers, config.port)
                .map_err(Failure::start)?,
        ),
    };
    warn_of_forwarding(config);
    let settings = settings(config, &secret);
    let path = Path::new(link, settings, config.user.clone()).map_err(Failure::fault)?;
    if let Some(publisher) = &publisher {
        path.watch(publisher).map_err(Failure::fault)?;
    }
    let started = (config.servers.clone(), config.port);
    Ok(Box::new(InUserSpace {
        secret,
        started,
        path: Some((path, publisher)),
        thread: None,
        shared: Arc::new(Shared {
            end: AtomicBool::new(false),
            exchanged: Mutex::new(Exchanged { about: about(config), ..Exchanged::default() }),
        }),
    }))
}

/// The path, as the daemon sees it.
struct InUserSpace {
    secret: Secret,
    /// The servers and the port that the link was opened for.
    started: (Vec<IpAddr>, u16),
    /// Present until it begins.
    path: Option<(Path<NetworkLink>, Option<Publisher>)>,
    thread: Option<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
}

/// What the daemon and the thread share.
struct Shared {
    end: AtomicBool,
    exchanged: Mutex<Exchanged>,
}

#[derive(Default)]
struct Exchanged {
    /// What `status` shows and what does not change by itself.
    about: Picture,
    /// New settings for the thread.
    settings: Option<Settings>,
    /// The thread updates these about once a second.
    counters: Vec<(Counter, u64)>,
    latencies: Latencies,
    states: Vec<(&'static str, u64)>,
    own: PathCounters,
}

impl Shared {
    fn exchanged(&self) -> MutexGuard<'_, Exchanged> {
        self.exchanged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DataPath for InUserSpace {
    fn mode(&self) -> &'static str {
        "user"
    }

    fn begin(&mut self) -> Result<(), Failure> {
        if let Some((path, publisher)) = self.path.take() {
            let shared = Arc::clone(&self.shared);
            let serve = move || serve(path, publisher.as_ref(), &shared);
            let thread = Builder::new().name("packets".into()).spawn(serve);
            self.thread = Some(thread.map_err(Failure::fault)?);
        }
        Ok(())
    }

    fn snapshot(&self, config: &Config) -> Result<Snapshot, Failure> {
        let exchanged = self.shared.exchanged();
        Ok(Snapshot {
            interface: config.interface().to_owned(),
            mode: self.mode().into(),
            counters: exchanged.counters.clone(),
            latencies: exchanged.latencies.clone(),
            states: exchanged.states.clone(),
            room: config.cache.connections.into(),
            active: config.active.any(),
            share: config.active.percent() / 100.0,
            checks: Vec::new(),
        })
    }

    fn tick(&mut self, config: &Config) -> Result<(), Failure> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return match self.thread.take().map(JoinHandle::join) {
                Some(Ok(Err(error))) => {
                    Err(Failure::fault(format!("the data path ended: {error}")))
                }
                _ => Err(Failure::fault("the data path ended")),
            };
        }
        let own = self.shared.exchanged().own;
        log(
            Level::Debug,
            "user space",
            json!({
                "queries": own.queries, "queries_full": own.queries_full,
                "strange_answers": own.strange_answers, "relays": own.relays,
                "relays_refused": own.relays_refused, "unsent": own.unsent,
            }),
        );
        self.shared.exchanged().settings = Some(settings(config, &self.secret));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.path.is_none() && self.thread.is_none()
    }

    fn reconfigure(&mut self, config: &Config, secret: Option<Secret>) -> Result<(), Failure> {
        if (&config.servers, config.port) != (&self.started.0, self.started.1) {
            return Err(Failure::refused(
                "server, port: the user-space data path takes others only when it starts; hint: restart it",
            ));
        }
        if let Some(secret) = secret {
            self.secret = secret;
        }
        let mut exchanged = self.shared.exchanged();
        let started_at = exchanged.about.about.as_ref().map_or(0, |about| about.started_at);
        exchanged.about = about(config);
        if let Some(about) = &mut exchanged.about.about {
            about.started_at = started_at;
        }
        exchanged.settings = Some(settings(config, &self.secret));
        Ok(())
    }

    fn drain(&mut self, _: &Config) -> Result<bool, Failure> {
        Ok(false)
    }

    fn open(&self) -> u64 {
        self.shared.exchanged().states.iter().map(|(_, n)| n).sum()
    }

    fn is_drained(&self, _: Duration) -> bool {
        true
    }

    fn end(self: Box<Self>, _: OnExit) -> Result<(), Failure> {
        self.shared.end.store(true, Ordering::Relaxed);
        match self.thread.map(JoinHandle::join) {
            Some(Ok(Err(error))) => Err(Failure::fault(error)),
            Some(Err(_)) => Err(Failure::fault("the data path's thread panicked")),
            Some(Ok(Ok(()))) | None => Ok(()),
        }
    }
}

/// The thread.
fn serve(
    mut path: Path<NetworkLink>,
    publisher: Option<&Publisher>,
    shared: &Shared,
) -> io::Result<()> {
    let mut published_at = Duration::ZERO;
    while !shared.end.load(Ordering::Relaxed) {
        let asked = path.turn(TURN, now)?;
        if let Some(publisher) = publisher.filter(|_| asked) {
            publisher.answer(|| status(&mut path, shared.exchanged().about.clone()).to_string());
        }
        let boot = now().boot;
        if boot.saturating_sub(published_at) < Duration::from_millis(500) {
            continue;
        }
        published_at = boot;
        let mut exchanged = shared.exchanged();
        if let Some(settings) = exchanged.settings.take() {
            path.reconfigure(settings);
        }
        exchanged.own = path.counters();
        exchanged.counters = path.core().counters().iter().collect();
        exchanged.latencies = path.core().latencies().clone();
        exchanged.states = states(&mut path);
    }
    Ok(())
}

/// Entries by state.
fn states(path: &mut Path<NetworkLink>) -> Vec<(&'static str, u64)> {
    let mut states = STATES.map(|(_, name)| (name, 0)).to_vec();
    for (_, flow) in path.core().flows() {
        let at = STATES.iter().position(|(state, _)| *state == flow.state);
        if let Some((_, count)) = at.and_then(|at| states.get_mut(at)) {
            *count += 1;
        }
    }
    states
}

/// Returns what `status` shows, except what the path knows.
fn about(config: &Config) -> Picture {
    let settings = KEYS.iter().map(|key| {
        // The table prints TOML values that are valid JSON, too.
        let shown = key.show(config);
        (key.name.to_owned(), serde_json::from_str(&shown).unwrap_or(Value::String(shown)))
    });
    let link = if config.user.link == UserLink::Tun { "tun" } else { "packet" };
    Picture {
        interface: config.interface().to_owned(),
        interfaces: vec![config.interface().to_owned()],
        attached: true,
        about: Some(About {
            mode: "user".into(),
            version: narrows_gateway::VERSION.into(),
            pid: std::process::id().into(),
            started_at: unix_s(),
            settings: settings.collect(),
        }),
        has_daemon: true,
        servers: config.servers.clone(),
        port: config.port,
        room: config.cache.connections.into(),
        user: Some(json!({
            "link": link, "upstream": config.user.upstream,
            "queries_room": config.user.queries, "relays_room": config.user.relays,
        })),
        ..Picture::default()
    }
}

/// Returns what `status` shows now.
fn status(path: &mut Path<NetworkLink>, about: Picture) -> Value {
    let entries = states(path).into_iter().map(|(state, n)| (state.to_owned(), n)).collect();
    let (own, sources) = (path.counters(), path.sources(SOURCES));
    let core = path.core();
    let settings = core.settings();
    let mut user = about.user.unwrap_or_default();
    for (key, n) in [
        ("queries", own.queries),
        ("queries_full", own.queries_full),
        ("strange_answers", own.strange_answers),
        ("relays", own.relays),
        ("relays_refused", own.relays_refused),
        ("unsent", own.unsent),
    ] {
        user[key] = n.into();
    }
    let picture = Picture {
        at: now().boot,
        active: settings.active,
        share: settings.share,
        close_fin: settings.close_fin,
        syncache: settings.syncache,
        axfr_detect: settings.axfr_detect,
        mss: [settings.mss4, settings.mss6],
        entries,
        counters: core.counters().iter().collect(),
        latencies: core.latencies().clone(),
        user: Some(user),
        ..about
    };
    picture.tell(sources)
}

/// How many sources are shown: this many with the most connections, and this many with the most
/// queries.
const SOURCES: usize = 500;

/// The names of the states in `status`.
pub(crate) const STATES: [(State, &str); 7] = [
    (State::Syn, "syn"),
    (State::Query, "query"),
    (State::Replied, "replied"),
    (State::Idle, "idle"),
    (State::Closing, "closing"),
    (State::Slow, "slow"),
    (State::Kernel, "kernel"),
];

fn now() -> Now {
    let boot = boot_ns();
    Now {
        boot: Duration::from_nanos(boot),
        wall: Duration::from_nanos(boot.wrapping_add(wall_offset_ns())),
    }
}

fn settings(config: &Config, secret: &Secret) -> Settings {
    let now = unix_s();
    Settings {
        previous_until: Duration::from_secs(previous_until_s(now, config.rotation)),
        // The link determines the largest segments.
        mss4: u16::MAX,
        mss6: u16::MAX,
        ..Settings::of(config, secret.keys(now, config.rotation))
    }
}

/// Each server place must answer over UDP. Without TCP, unusual queries cannot be served there.
fn check_upstream(config: &Config) -> Result<(), Failure> {
    let wait = Duration::from_nanos(config.server_wait.as_ps() / 1000);
    for &to in &config.user.upstream {
        server::answers_with(to, wait, config.user.proxy_protocol).map_err(Failure::start)?;
        if !server::listens(to) {
            log(
                Level::Warning,
                "the server does not listen on TCP",
                json!({ "server": to, "why": "zone transfers, long replies and further queries need it" }),
            );
        }
    }
    Ok(())
}

/// Warns if the kernel forwards packets of the service and should not, or should and does not.
fn warn_of_forwarding(config: &Config) {
    for (v4, name) in [(true, "net.ipv4.ip_forward"), (false, "net.ipv6.conf.all.forwarding")] {
        let Some(address) = config.servers.iter().find(|address| address.is_ipv4() == v4) else {
            continue;
        };
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        let forwards = std::fs::read_to_string(file).is_ok_and(|value| value.trim() != "0");
        match config.user.link {
            UserLink::Tun if !forwards => log(
                Level::Warning,
                "only clients on this machine are served",
                json!({ "why": format!("{name} is 0"), "hint": format!("sysctl -w {name}=1") }),
            ),
            UserLink::Packet if forwards => log(
                Level::Warning,
                "the kernel may forward the service's packets, too",
                json!({ "why": format!("{name} is 1"), "hint": format!("ip route add blackhole {address}") }),
            ),
            _ => {}
        }
    }
}
