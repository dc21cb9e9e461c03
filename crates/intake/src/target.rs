//! How tables name a server: a server is an address, a port and a transport.

use std::borrow::Cow;

/// Returns the server's address, with the port behind it unless the port is the usual one of this
/// transport. A port of 0 means that there is none.
pub(crate) fn target<'a>(address: &'a str, port: u16, transport: &str) -> Cow<'a, str> {
    if port == 0 || port == usual_port(transport) {
        address.into()
    } else if address.contains(':') {
        // RFC 3986 (3.2.2).
        format!("[{address}]:{port}").into()
    } else {
        format!("{address}:{port}").into()
    }
}

/// Returns the port of DNS over this transport: RFC 7858 (3.1), 9250 (4.1.1), 8484 (HTTPS's), and
/// 1035 (4.2).
fn usual_port(transport: &str) -> u16 {
    match transport {
        "tls" | "quic" => 853,
        "https" => 443,
        _ => 53,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_port_that_its_transport_does_not_imply() {
        assert_eq!(target("192.0.2.1", 53, "udp"), "192.0.2.1");
        assert_eq!(target("192.0.2.1", 53, "tls"), "192.0.2.1:53");
        assert_eq!(target("192.0.2.1", 853, "tls"), "192.0.2.1");
        assert_eq!(target("192.0.2.1", 853, "quic"), "192.0.2.1");
        assert_eq!(target("192.0.2.1", 443, "https"), "192.0.2.1");
        assert_eq!(target("192.0.2.1", 5301, "tcp"), "192.0.2.1:5301");
        assert_eq!(target("2001:db8::1", 5301, "tcp"), "[2001:db8::1]:5301");
        assert_eq!(target("2001:db8::1", 53, "tcp"), "2001:db8::1");
        assert_eq!(target("192.0.2.1", 0, "tcp"), "192.0.2.1");
    }
}
