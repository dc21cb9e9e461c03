//! Beacons that nobody answers: datagrams of one length, at fixed times.

use narrows_units::keys;
use narrows_units::settings::{any, positive, size};
use narrows_units::{Span, Time};

use crate::streams::{HEADERS, Stream, associate, check};
use crate::{Application, Association, Environment, Host, Message, Settings, Use};

keys! {
    /// A group of beacons.
    pub struct Beacon {
        /// Who sends them.
        streams: Vec<Stream> = Vec::new(), any();
        /// Time between two beacons.
        every: Span = Span::from_secs(1), positive();
        /// Bytes of a beacon.
        octets: u16 = 100, size(1, 1000);
    }
}

impl Settings for Beacon {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        check(&self.streams, environment)
    }

    fn uses(&self, _environment: &Environment<'_>) -> Vec<Use> {
        let bytes = HEADERS + self.octets;
        let of_one = |stream: &Stream| Use { path: stream.there, bytes, dns: false };
        self.streams.iter().map(of_one).collect()
    }

    fn build(self, _name: &str) -> Box<dyn Application> {
        Box::new(Beacons { settings: self, first_socket: 0, associations: Vec::new() })
    }
}

#[derive(Debug)]
struct Beacons {
    settings: Beacon,
    first_socket: u32,
    associations: Vec<Association>,
}

impl Application for Beacons {
    fn start(&mut self, host: &mut dyn Host) {
        self.first_socket = host.take_sockets(self.settings.streams.len() as u32);
        for (number, stream) in self.settings.streams.iter().enumerate() {
            self.associations.push(associate(host, stream, number as u32, 9));
            host.wake(stream.start, number as u32);
        }
    }

    fn timer(&mut self, host: &mut dyn Host, number: u32) {
        let message = Message { bytes: self.settings.octets.into(), tag: number, notes: [0; 2] };
        let association = self.associations[number as usize];
        host.send_datagram(association, self.first_socket + number, false, &message);
        let next: Time = host.now() + self.settings.every;
        if next < Time::MAX {
            host.wake(next, number);
        }
    }
}
