//! Notices to applications.

use narrows_units::Time;

use super::Flows;
use crate::application::Application;
use crate::message::{Datagram, Message};
use crate::socket::Socket;
use crate::transport::Closed;
use crate::transport::tls::Flight;

/// A notice to an application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Opened(Socket),
    /// A part of a message has arrived.
    Begun(Socket),
    /// A whole message has arrived; the time is that of its first byte.
    Received(Socket, Message, Time),
    Delivered(Socket),
    Closed(Socket, Closed),
    /// A flight of TLS, which this end answers; the application only hears that it came.
    Flight(Socket, Flight),
    /// An application has a connection to accept.
    Arrived(u32),
    Datagram(Datagram),
}

/// Who gets a notice, and how.
impl Notice {
    pub(crate) fn application(&self, flows: &Flows) -> u32 {
        match *self {
            Self::Opened(socket)
            | Self::Begun(socket)
            | Self::Received(socket, ..)
            | Self::Delivered(socket)
            | Self::Flight(socket, _)
            | Self::Closed(socket, _) => flows.owner(socket.end),
            Self::Arrived(application) => application,
            Self::Datagram(datagram) => {
                let first = datagram.association.first_end();
                flows.owner(first + u32::from(!datagram.goes_back))
            }
        }
    }

    /// Delivers the notice to its application.
    pub(crate) fn tell(
        self,
        application: &mut dyn Application,
        host: &mut crate::application::Host<'_>,
    ) {
        match self {
            Self::Opened(socket) => application.opened(host, socket),
            Self::Begun(socket) => application.begun(host, socket),
            Self::Received(socket, message, first_byte_at) => {
                host.first_byte_at = first_byte_at;
                application.received(host, socket, message);
            }
            Self::Delivered(socket) => application.delivered(host, socket),
            Self::Closed(socket, how) => application.closed(host, socket, how),
            Self::Flight(socket, flight) => {
                host.flows.take_flight(host.now, socket, flight, host.network);
                application.shook(host, socket);
            }
            Self::Arrived(_) => application.arrived(host),
            Self::Datagram(datagram) => application.datagram(host, datagram),
        }
    }
}
