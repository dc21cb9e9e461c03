//! Events for applications.

use narrows_apps::{Datagram, Message, Socket};
use narrows_transport::Closed;
use narrows_transport::tls::Flight;
use narrows_units::Time;

use super::Flows;

/// An event for an application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SocketEvent {
    Opened(Socket),
    /// A part of a message has arrived.
    FirstByte(Socket),
    /// A whole message has arrived; the time is that of its first byte.
    Received(Socket, Message, Time),
    Delivered(Socket),
    Closed(Socket, Closed),
    /// A flight of TLS, which this end answers; the application only hears that it came.
    Flight(Socket, Flight),
    /// An application has a connection to accept.
    Arrived(u32),
    Datagram(Datagram),
    /// An application tells another one something: `to`, `from`, what.
    Notified(u32, u32, [u32; 2]),
}

/// Who gets an event, and how.
impl SocketEvent {
    pub(crate) fn application(&self, flows: &Flows) -> u32 {
        match *self {
            Self::Opened(socket)
            | Self::FirstByte(socket)
            | Self::Received(socket, ..)
            | Self::Delivered(socket)
            | Self::Flight(socket, _)
            | Self::Closed(socket, _) => flows.owner(socket.end),
            Self::Arrived(application) | Self::Notified(application, ..) => application,
            Self::Datagram(datagram) => {
                let first = datagram.association.first_end();
                flows.owner(first + u32::from(!datagram.goes_back))
            }
        }
    }
}
