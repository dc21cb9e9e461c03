//! A DNS server: it answers each query after its service time.

use narrows_units::Span;

use crate::application::{Application, Association, Datagram, Host, Message, Settings, Use};
use crate::plan::Plan;
use crate::random::Random;

/// Settings of a server.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Server {
    /// Time from a query's arrival to its reply: a constant part.
    pub service: Span,
    /// Mean of an exponentially distributed part, added to it.
    pub service_jitter_mean: Span,
}

impl Settings for Server {
    fn check(&self, _plan: &Plan) -> Result<usize, String> {
        Ok(0)
    }

    fn uses(&self, _plan: &Plan) -> Vec<Use> {
        // The clients name the ways of both directions.
        Vec::new()
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Answering {
            settings: self,
            name: name.to_owned(),
            random: None,
            waiting: Vec::new(),
            free: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct Answering {
    settings: Server,
    name: String,
    random: Option<Random>,
    /// Replies that are being prepared, by the timer that ends it.
    waiting: Vec<Reply>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    association: Association,
    socket: u32,
    message: Message,
}

impl Application for Answering {
    fn start(&mut self, host: &mut Host<'_>) {
        self.random = Some(host.random(&format!("{}/service", self.name)));
    }

    fn datagram(&mut self, host: &mut Host<'_>, query: Datagram) {
        let mut service = self.settings.service;
        if self.settings.service_jitter_mean > Span::ZERO
            && let Some(random) = &mut self.random
        {
            service += random.exponential(self.settings.service_jitter_mean);
        }
        let message = Message { bytes: query.message.notes[0], ..query.message };
        let reply = Reply { association: query.association, socket: query.socket, message };
        let place = match self.free.pop() {
            Some(place) => {
                self.waiting[place as usize] = reply;
                place
            }
            None => {
                self.waiting.push(reply);
                (self.waiting.len() - 1) as u32
            }
        };
        host.wake(host.now() + service, place);
    }

    fn timer(&mut self, host: &mut Host<'_>, place: u32) {
        self.free.push(place);
        let Reply { association, socket, message } = self.waiting[place as usize];
        host.send_datagram(association, socket, true, &message);
    }
}
