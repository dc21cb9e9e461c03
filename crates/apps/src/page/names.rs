//! The names of a page's servers: which of them a browser knows, and how it asks for the others.

use narrows_units::keys;
use narrows_units::settings::{any, share};
use narrows_units::{MaybeTime, Time};

use super::Browsers;
use crate::dns::client::on_demand::Resolved;
use crate::{Host, Random};

keys! {
    #[derive(Copy)]
    /// How browsers find the addresses of servers.
    pub struct Resolver as "PageResolver" {
        /// The DNS clients at the browsers' machine, which ask only for pages: an index into the
        /// plan's applications.
        client: usize = 0, any();
        /// The share of names that a browser knows when it needs them, from an earlier load or
        /// another page.
        cached: f64 = 0.0, share();
    }
}

/// A name that a load needs: a row of the table `lookups`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupRow {
    pub(super) page: u32,
    pub(super) server: u32,
    /// Its query; `None`: the browser knew the name, or nobody has said.
    pub(super) query: Option<u32>,
    pub(super) cached: bool,
    pub(super) asked: Time,
    pub(super) end: MaybeTime,
    pub(super) failed: bool,
}

/// What a browser knows of the names of its page.
#[derive(Debug)]
pub(super) struct Names {
    resolver: Resolver,
    random: Random,
    /// By server.
    states: Vec<State>,
    /// The objects that wait for names, by server.
    waiting: Vec<Vec<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    /// The resolver has been asked. The row is that of the last load that needs the name.
    Asked(u32),
    Known,
}

impl Names {
    pub(super) fn new(resolver: Resolver, random: Random, servers: usize) -> Self {
        let (states, waiting) = (vec![State::Unknown; servers], vec![Vec::new(); servers]);
        Self { resolver, random, states, waiting }
    }

    /// Begins a load. A query of the last one that is still under way goes on.
    pub(super) fn forget(&mut self) {
        for state in &mut self.states {
            if *state == State::Known {
                *state = State::Unknown;
            }
        }
        self.waiting.iter_mut().for_each(Vec::clear);
    }
}

impl Browsers {
    /// Asks for an object as soon as its server's name is known.
    pub(super) fn find(&mut self, host: &mut dyn Host, number: u32, object: u32) {
        let server = self.settings.objects[object as usize].server;
        let servers = self.settings.servers.len() as u32;
        let browser = &mut self.browsers[number as usize];
        let (Some(names), Some(page)) = (&mut browser.names, browser.page) else {
            return self.want(host, number, object);
        };
        let state = &mut names.states[server];
        let is_asked = match *state {
            State::Known => return self.want(host, number, object),
            State::Asked(row) => {
                names.waiting[server].push(object);
                if self.lookups[row as usize].page == page {
                    return;
                }
                true
            }
            State::Unknown => false,
        };
        let cached = !is_asked && names.random.uniform() < names.resolver.cached;
        let now = host.now();
        let row = self.lookups.len() as u32;
        self.lookups.push(LookupRow {
            page,
            server: server as u32,
            query: None,
            cached,
            asked: now,
            end: if cached { now.into() } else { MaybeTime::NONE },
            failed: false,
        });
        if cached {
            *state = State::Known;
            return self.want(host, number, object);
        }
        *state = State::Asked(row);
        if !is_asked {
            names.waiting[server].push(object);
            host.notify(names.resolver.client as u32, [number * servers + server as u32, 0]);
        }
    }

    /// Goes on with the objects that waited for a name, or fails the page.
    pub(super) fn resolved(&mut self, host: &mut dyn Host, resolved: Resolved) {
        let servers = self.settings.servers.len() as u32;
        let (number, server) = (resolved.ticket / servers, (resolved.ticket % servers) as usize);
        let browser = &mut self.browsers[number as usize];
        let Some(names) = &mut browser.names else { return };
        let State::Asked(row) = names.states[server] else { return };
        let row = &mut self.lookups[row as usize];
        row.query = Some(resolved.query);
        let is_wanted = browser.page == Some(row.page);
        names.states[server] =
            if is_wanted && resolved.is_answered { State::Known } else { State::Unknown };
        if !is_wanted {
            return;
        }
        row.end = host.now().into();
        row.failed = !resolved.is_answered;
        let objects = std::mem::take(&mut names.waiting[server]);
        if !resolved.is_answered {
            self.fail(host, number);
            return;
        }
        for object in objects {
            self.want(host, number, object);
        }
    }
}
