//! Tells systemd the state of the service, through sd_notify(3)'s protocol but without its library:
//! one datagram per message.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a message such as `READY=1` if systemd asked for it.
pub fn notify(message: &str) {
    if let Some(place) = std::env::var_os("NOTIFY_SOCKET") {
        // A service manager that is gone cannot be told.
        let _ = send(&place, message);
    }
}

fn send(place: &OsStr, message: &str) -> io::Result<()> {
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(place)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.send(message.as_bytes()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str(), "READY=1").expect("it listens");
        let mut message = [0; 64];
        let length = manager.recv(&mut message).expect("the message");
        assert_eq!(&message[..length], b"READY=1");
        std::fs::remove_file(&path).expect("it is ours");
        assert!(send(path.as_os_str(), "READY=1").is_err());
    }
}
