//! Timestamps that the kernel puts on packets (Documentation/networking/timestamping.rst).
//!
//! These are software stamps, in `CLOCK_REALTIME`. An arriving packet is stamped when the kernel
//! takes it from the device, a departing one when the device's driver gets it. They need no
//! privilege.
//!
//! TCP returns the stamp of the last packet from which a read took bytes. If several packets wait,
//! the stamps of the earlier ones are lost. A reader therefore has to be quick, or use a raw socket
//! as well. If a lost packet arrives after others, its stamp is lost, too: the kernel joins it with
//! those that waited for it, and keeps their stamp. `TcpInfo::out_of_order` tells when this
//! happens.

use std::io::{IoSliceMut, Result};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

/// Makes the kernel stamp the packets that this socket receives and sends.
pub(crate) fn enable(socket: &impl AsFd) -> Result<()> {
    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        // Without the packet itself, which an unprivileged process might not get.
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    Ok(setsockopt(socket, sockopt::Timestamping, &flags)?)
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The number of bytes; 0 at the end of the stream.
    pub(crate) bytes: usize,
    /// When the last packet that they came from arrived, according to the kernel. Without a stamp:
    /// when they were read.
    pub(crate) at: SystemTime,
    /// Whether the kernel gave the time.
    pub(crate) stamped: bool,
}

/// Reads what is there. Fails with `WouldBlock` if nothing is.
pub(crate) fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> Result<Arrival> {
    let mut control = control_space();
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(
        socket.as_fd().as_raw_fd(),
        &mut slices,
        Some(&mut control),
        flags,
    )?;
    let stamp = message.cmsgs().ok().and_then(stamp_in);
    Ok(Arrival {
        bytes: message.bytes,
        at: stamp.unwrap_or_else(SystemTime::now),
        stamped: stamp.is_some(),
    })
}

/// Returns when the most recent packet left, if the kernel has reported it. Empties the error
/// queue.
pub(crate) fn departure(socket: &impl AsFd) -> Option<SystemTime> {
    let mut last = None;
    // Bounded: the queue holds at most what this socket sent.
    for _ in 0..MOST_REPORTS {
        let mut control = control_space();
        let mut nothing = [0; 64];
        let mut slices = [IoSliceMut::new(&mut nothing)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let found = recvmsg::<SockaddrStorage>(
            socket.as_fd().as_raw_fd(),
            &mut slices,
            Some(&mut control),
            flags,
        );
        match found {
            Ok(message) => last = message.cmsgs().ok().and_then(stamp_in).or(last),
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    last
}

/// Returns the time from one stamp to another. Returns `None` if the clock was set back between
/// them, or if the time is longer than the process's own clock allows.
pub(crate) fn between(from: SystemTime, to: SystemTime, at_most: Duration) -> Option<Duration> {
    to.duration_since(from).ok().filter(|span| *span <= at_most + SLACK)
}

fn stamp_in(messages: nix::sys::socket::CmsgIterator<'_>) -> Option<SystemTime> {
    messages
        .filter_map(|message| match message {
            ControlMessageOwned::ScmTimestampsns(stamps) => system_time(stamps.system),
            _ => None,
        })
        .last()
}

/// Converts a stamp. Zero means "no stamp": the kernel only starts to stamp a moment after the
/// first socket has asked for it.
fn system_time(stamp: TimeSpec) -> Option<SystemTime> {
    let seconds = u64::try_from(stamp.tv_sec()).ok().filter(|seconds| *seconds > 0)?;
    let nanos = u32::try_from(stamp.tv_nsec()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

fn control_space() -> Vec<u8> {
    vec![0; CONTROL_BYTES]
}

/// Room for a stamp message (three timespecs) and an extended error with its address.
const CONTROL_BYTES: usize = 512;

/// The most reports of the error queue that are read at once.
const MOST_REPORTS: usize = 64;

/// By how much a time between stamps may exceed the process's own measurement.
const SLACK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Instant;

    #[test]
    fn the_kernel_stamps_what_comes_and_goes() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client.connect(server.local_addr().expect("bound")).expect("connected");
        server.connect(client.local_addr().expect("bound")).expect("connected");
        enable(&client).expect("timestamps");
        let before = SystemTime::now();
        client.send(b"query").expect("sent");
        server.recv(&mut [0; 16]).expect("received");
        // Stamping of arriving packets starts a little after the request.
        let mut arrival = None;
        let clock = Instant::now();
        while clock.elapsed() < Duration::from_secs(5) {
            server.send(b"reply").expect("sent");
            let found = loop {
                match receive(&client, &mut [0; 16]) {
                    Ok(found) => break found,
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                }
            };
            assert_eq!(found.bytes, 5);
            if found.stamped {
                arrival = Some(found);
                break;
            }
        }
        let arrival = arrival.expect("a stamp on what came");
        let left = departure(&client).expect("a stamp on what went");
        assert!(before <= left && left <= arrival.at && arrival.at <= SystemTime::now());
        assert_eq!(departure(&client), None, "it is given once");
    }

    #[test]
    fn times_that_the_clock_cannot_mean_are_refused() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let later = at + Duration::from_millis(40);
        assert_eq!(between(at, later, Duration::from_millis(40)), Some(Duration::from_millis(40)));
        assert_eq!(between(later, at, Duration::from_millis(40)), None);
        assert_eq!(between(at, later, Duration::from_millis(20)), None);
    }
}
