//! A remote shell: somebody types, and sees each letter when it comes back from the other end.
//!
//! Each key is a message of its own over one TCP connection, and so is its echo. The table `keys`
//! has a row for each key. The times between keys are exponentially distributed. There are two
//! applications: a [`Typist`], and the [`Shell`] that it connects to.

use narrows_sim::Random;
use narrows_sim::application::{
    Application, Closed, Dial, Environment, Host, Message, Outside, Socket, Use,
};
use narrows_sim::plan::{self, Kind, Plan};
use narrows_sim::table::{Column, Table};
use narrows_sim::tcp;
use narrows_units::{Span, Time};

/// Settings of a typist.
#[derive(Clone, Debug)]
pub struct Typist {
    /// The path to the shell: an index into the plan's paths.
    pub there: usize,
    /// The path back: an index into the plan's paths.
    pub back: usize,
    /// Settings of the typist's end: an index into the plan's `tcp`.
    pub tcp: usize,
    /// The shell: an index into the plan's applications.
    pub shell: usize,
    /// When the connection is opened.
    pub start: Time,
    /// The mean time between keys.
    pub pause: Span,
    /// The number of keys to type.
    pub keys: u32,
}

/// Settings of a shell.
#[derive(Clone, Debug)]
pub struct Shell {
    /// Settings of its ends: an index into the plan's `tcp`.
    pub tcp: usize,
}

/// The bytes that SSH sends for a letter: 4 of length, 16 of the encrypted packet, and 16 of its
/// authentication code.
pub const BYTES: u32 = 36;

/// Puts a typist at node `from` and a shell at node `to` into a plan. Rows of the table `keys` have
/// the typist's name. There are five keys per second until the end.
///
/// # Errors
///
/// Returns an error if the plan has no path between the nodes, in either direction.
pub fn put(plan: &mut Plan, from: &str, to: &str, name: &str) -> Result<(), String> {
    let path = |from: &str, to: &str| {
        let ends = |path: &plan::Path| plan.nodes[path.from] == from && plan.nodes[path.to] == to;
        plan.paths.iter().position(ends).ok_or_else(|| {
            format!("{name}: the scenario has no traffic from {from} to {to}, and so no path")
        })
    };
    let (there, back) = (path(from, to)?, path(to, from)?);
    if plan.tcp.is_empty() {
        plan.tcp.push(tcp::Config::profile("linux-6").expect("it is in PROFILES"));
    }
    let typist = Typist {
        there,
        back,
        tcp: 0,
        shell: plan.applications.len(),
        start: Time::ZERO + Span::from_secs(1),
        pause: Span::from_ms(200),
        keys: (plan.end.as_secs_f64() * 5.0) as u32,
    };
    for (name, kind) in [("shell", Kind::custom(Shell { tcp: 0 })), (name, Kind::custom(typist))] {
        plan.applications.push(plan::Application { name: name.into(), kind });
    }
    Ok(())
}

impl Outside for Typist {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.check_round_trip(self.there, self.back)?;
        environment.check_tcp(self.tcp)?;
        if self.shell >= environment.applications.len() {
            return Err("shell: no such application".into());
        }
        Ok(1)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        [self.there, self.back].map(|path| Use { path, bytes: Use::ACK, dns: false }).into()
    }

    fn build(&self, name: &str) -> Box<dyn Application> {
        Box::new(Typing {
            name: name.to_owned(),
            settings: self.clone(),
            random: None,
            socket: None,
            keys: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct Typing {
    name: String,
    settings: Typist,
    random: Option<Random>,
    socket: Option<Socket>,
    /// When each key was typed, and how long its echo took.
    keys: Vec<(Time, Option<Span>)>,
}

impl Application for Typing {
    fn start(&mut self, host: &mut dyn Host) {
        self.random = Some(host.random(&self.name));
        host.wake(self.settings.start, 0);
    }

    fn timer(&mut self, host: &mut dyn Host, _token: u32) {
        let Some(random) = &mut self.random else { return };
        let Some(socket) = self.socket else {
            let Typist { there, back, tcp, shell, .. } = self.settings;
            let dial = Dial { there, back, server: shell, port: PORT, tcp, number: 0, dns: false };
            self.socket = Some(host.open(&dial, random));
            return;
        };
        let tag = self.keys.len() as u32;
        self.keys.push((host.now(), None));
        host.send(socket, Message { bytes: BYTES, tag, notes: [0; 2] });
        if tag + 1 < self.settings.keys {
            host.wake(host.now() + random.exponential(self.settings.pause), 0);
        }
    }

    fn opened(&mut self, host: &mut dyn Host, _socket: Socket) {
        host.wake(host.now(), 0);
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, echo: Message) {
        if let Some((typed_at, took)) = self.keys.get_mut(echo.tag as usize) {
            *took = Some(host.now().since(*typed_at));
        }
        if echo.tag + 1 == self.settings.keys {
            host.close(socket);
        }
    }

    fn is_done(&self) -> bool {
        self.keys.last().is_some_and(|key| key.1.is_some())
            && self.keys.len() as u32 == self.settings.keys
    }

    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        let ms = |took: &Option<Span>| took.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
        let columns = vec![
            ("group", Column::Text(self.keys.iter().map(|_| self.name.clone()).collect())),
            ("sent_s", Column::F64(self.keys.iter().map(|(at, _)| at.as_secs_f64()).collect())),
            ("echo_ms", Column::F64(self.keys.iter().map(|(_, took)| ms(took)).collect())),
        ];
        vec![Table { name: "keys", columns }]
    }
}

impl Outside for Shell {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.check_tcp(self.tcp)?;
        // Typists open the connections.
        Ok(0)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        // Typists name the paths of both directions.
        Vec::new()
    }

    fn build(&self, _name: &str) -> Box<dyn Application> {
        Box::new(Echoing { tcp: self.tcp })
    }
}

#[derive(Debug)]
struct Echoing {
    tcp: usize,
}

impl Application for Echoing {
    fn start(&mut self, host: &mut dyn Host) {
        host.listen(self.tcp, BACKLOG);
    }

    fn arrived(&mut self, host: &mut dyn Host) {
        while host.accept().is_some() {}
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, key: Message) {
        host.send(socket, key);
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, how: Closed) {
        if how == Closed::ByPeer {
            host.close(socket);
        }
    }
}

/// SSH's port.
const PORT: u16 = 22;
/// `listen(2)`'s second argument in OpenSSH.
const BACKLOG: u32 = 128;
