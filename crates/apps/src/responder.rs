//! A server that answers each request with as many bytes as it asks for: the other end of `incast`
//! and `page`.
//!
//! It accepts every connection at once. It answers after its service time, in the order in which
//! answers are ready. An answer is written as a whole, so the answers on one connection follow each
//! other and do not mix. HTTP/1.1 demands this, and RFC 9218, section 10, recommends it to HTTP/2
//! servers for answers of equal urgency that are useless in parts. It never closes first.
//!
//! One responder answers at all hosts to which some client's paths lead.

use narrows_transport::{Closed, quic};
use narrows_units::settings::any;
use narrows_units::{Span, keys};

use crate::dns::slab::Slab;
use crate::secure::SecureServer;
use crate::{
    Application, Draw, Environment, Host, Message, Protocol, Random, Service, Settings, Socket, Use,
};

keys! {
    /// The settings of a responder.
    pub struct Responder {
        /// The settings of its ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// The time from a request's arrival to its answer.
        service: Draw<Span> = Draw::Constant(Span::ZERO), any();
        /// How it encrypts if clients do; `None`: it cannot.
        secure: Option<SecureServer> = None, any();
    }
}

/// Creates a request for `answer` bytes. `tag` belongs to the client; the answer has the same.
pub(crate) fn request(bytes: u32, answer: u32, tag: u32) -> Message {
    Message { bytes, tag, notes: [answer, 0] }
}

/// The longest answer, a gigabyte: a message has room for it and its headers.
pub(crate) const LONGEST: u64 = 1_000_000_000;

/// Limits an answer's drawn length to what a message can hold.
pub(crate) fn length(drawn: u64) -> u32 {
    drawn.clamp(1, LONGEST) as u32
}

impl Settings for Responder {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        environment.check_tcp(self.tcp)?;
        // The clients open the connections.
        Ok(0)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        // The clients name the paths of both directions.
        Vec::new()
    }

    fn service(&self) -> Option<Service> {
        let quic = Settings::quic(self).is_some();
        let tls = self.secure.is_some();
        Some(Service { protocol: Protocol::Bytes, tls, https: false, quic, http3: false })
    }

    fn quic(&self) -> Option<&quic::Config> {
        self.secure.as_ref()?.quic.as_ref()
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        Box::new(Responding {
            name: name.to_owned(),
            settings: self,
            random: None,
            asked: 0,
            answers: Slab::default(),
        })
    }
}

#[derive(Debug)]
struct Responding {
    name: String,
    settings: Responder,
    random: Option<Random>,
    /// The number of requests that have arrived.
    asked: u32,
    /// Answers in preparation. A timer has the number of its answer.
    answers: Slab<(Socket, Message)>,
}

impl Application for Responding {
    fn start(&mut self, host: &mut dyn Host) {
        self.random = Some(host.random(&format!("{}/service", self.name)));
        host.listen(self.settings.tcp, BACKLOG);
        if let Some(secure) = &self.settings.secure {
            secure.serve(host);
        }
    }

    fn arrived(&mut self, host: &mut dyn Host) {
        while host.accept().is_some() {}
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, request: Message) {
        let answer = Message { bytes: request.notes[0], ..request };
        let Some(random) = &mut self.random else { return };
        let service = self.settings.service.next(random, self.asked);
        self.asked = self.asked.wrapping_add(1);
        if service == Span::ZERO {
            host.send(socket, answer);
        } else {
            let number = self.answers.put((socket, answer));
            host.wake(host.now() + service, number);
        }
    }

    fn timer(&mut self, host: &mut dyn Host, number: u32) {
        if let Some((socket, answer)) = self.answers.take(number) {
            host.send(socket, answer);
        }
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, how: Closed) {
        if how == Closed::ByPeer {
            host.close(socket);
        }
    }
}

/// `net.core.somaxconn`. Connections are accepted as soon as they are established, so that none
/// waits.
const BACKLOG: u32 = 4096;
