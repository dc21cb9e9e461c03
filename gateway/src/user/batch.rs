//! Sends and receives many packets or datagrams with one system call: recvmmsg(2) and sendmmsg(2).
//!
//! A query takes nine packets of a client's connection and two datagrams to and from the server.
//! With a call for each, and another one to learn that no more are waiting, the calls would cost
//! more than the protocol.

#![allow(
    unsafe_code,
    reason = "recvmmsg and sendmmsg with addresses of packet sockets have no safe form in nix"
)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::null_mut;

use nix::libc;

use super::peer::Peer;

/// The most packets of one call.
pub const BATCH: usize = 32;
/// The largest IP packet.
pub const PACKET_MAX: usize = 65_535 + 40;

/// Received packets. The next ones replace them. Memory use follows the length of the packets.
#[derive(Debug, Default)]
pub struct Inbox {
    /// [`BATCH`] slots of [`PACKET_MAX`] bytes.
    bytes: Vec<u8>,
    packets: Vec<Arrival>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    slot: usize,
    length: usize,
    peer: Peer,
}

impl Inbox {
    /// An inbox without packets. (`default()` has no room for any.)
    pub fn new() -> Self {
        Self { bytes: vec![0; BATCH * PACKET_MAX], packets: Vec::with_capacity(BATCH) }
    }

    /// Returns how many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the packet with this number, which must be below [`Inbox::len`], and its sender.
    pub fn packet(&mut self, number: usize) -> (&mut [u8], Peer) {
        let Arrival { slot, length, peer } = self.packets[number];
        (&mut self.bytes[slot * PACKET_MAX..][..length], peer)
    }

    /// Replaces the contents with what `read` puts into the buffers it gets, until it returns
    /// `None` or the room is used up. Returns whether more may be waiting.
    ///
    /// # Errors
    ///
    /// Returns the first error of `read`. The packets before it are kept.
    pub fn fill(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> io::Result<Option<(usize, Peer)>>,
    ) -> io::Result<bool> {
        self.packets.clear();
        for (slot, buffer) in self.bytes.chunks_exact_mut(PACKET_MAX).enumerate() {
            match read(buffer)? {
                Some((length, peer)) => self.packets.push(Arrival { slot, length, peer }),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Replaces the contents with what is waiting on a socket, if `keep` names a peer for it.
    /// Returns whether more may be waiting.
    ///
    /// # Errors
    ///
    /// Returns the error of recvmmsg(2), which is [`io::ErrorKind::WouldBlock`] if nothing is
    /// waiting.
    pub(super) fn receive(
        &mut self,
        socket: impl AsFd,
        mut keep: impl FnMut(&[u8], &libc::sockaddr_ll) -> Option<Peer>,
    ) -> io::Result<bool> {
        self.packets.clear();
        // SAFETY: sockaddr_ll, iovec and mmsghdr consist of numbers and pointers, for which zeros
        // are valid.
        let (mut names, mut pieces, mut headers): (
            [libc::sockaddr_ll; BATCH],
            [libc::iovec; BATCH],
            [libc::mmsghdr; BATCH],
        ) = unsafe { zeroed() };
        let slots = self.bytes.chunks_exact_mut(PACKET_MAX).zip(&mut names).zip(&mut pieces);
        let mut count = 0;
        for (((slot, name), piece), header) in slots.zip(&mut headers) {
            *piece = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: `count` headers, each with a name and one buffer of the stated lengths. All of
        // them and the bytes of the buffers outlive the call, and nobody else borrows them.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                null_mut(),
            )
        };
        let Ok(received) = usize::try_from(received) else {
            return Err(io::Error::last_os_error());
        };
        for (slot, (header, name)) in headers.iter().zip(&names).take(received).enumerate() {
            let length = (header.msg_len as usize).min(PACKET_MAX);
            let bytes = &self.bytes[slot * PACKET_MAX..][..length];
            if let Some(peer) = keep(bytes, name) {
                self.packets.push(Arrival { slot, length, peer });
            }
        }
        Ok(received == BATCH)
    }
}

/// Sends the first of `messages`, at most [`BATCH`]: each to the address in the same place of
/// `names`, or all to the socket's peer if there are no names. Returns how many were sent, at least
/// one if there are any.
///
/// # Errors
///
/// Returns the error of sendmmsg(2) if it refuses the first message. Nothing was sent then.
pub(super) fn send(
    socket: impl AsFd,
    messages: &[Vec<u8>],
    names: &[libc::sockaddr_ll],
) -> io::Result<usize> {
    // SAFETY: iovec and mmsghdr consist of numbers and pointers, for which zeros are valid.
    let (mut pieces, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { zeroed() };
    let mut names = names.iter();
    let mut count = 0;
    for ((message, piece), header) in messages.iter().zip(&mut pieces).zip(&mut headers) {
        *piece =
            libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
        if let Some(name) = names.next() {
            header.msg_hdr.msg_name = std::ptr::from_ref(name).cast_mut().cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        }
        header.msg_hdr.msg_iov = piece;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: `count` headers, each with one buffer and perhaps a name of the stated lengths, which
    // sendmmsg only reads. All of them outlive the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sends all of `messages` as [`send`] does, and empties the list. If the system refuses a message,
/// `refused` gets the error and decides whether to try again or to leave it out.
///
/// # Errors
///
/// Returns the error of `refused`. The list is empty then, too.
pub(super) fn send_all(
    socket: impl AsFd,
    messages: &mut Vec<Vec<u8>>,
    names: &[libc::sockaddr_ll],
    mut refused: impl FnMut(io::Error) -> io::Result<bool>,
) -> io::Result<()> {
    let mut done = 0;
    let mut result = Ok(());
    while done < messages.len() && result.is_ok() {
        match send(&socket, &messages[done..], names.get(done..).unwrap_or_default()) {
            Ok(sent) => done += sent,
            Err(error) => match refused(error) {
                Ok(again) => done += usize::from(!again),
                Err(error) => result = Err(error),
            },
        }
    }
    messages.clear();
    result
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
        a.connect(b.local_addr().expect("bound")).expect("loopback");
        b.connect(a.local_addr().expect("bound")).expect("loopback");
        (a, b)
    }

    #[test]
    fn many_go_and_come_in_order_with_few_calls() {
        let (a, b) = pair();
        let sizes = (0..70).map(|n: usize| n * 37);
        let mut messages: Vec<Vec<u8>> = sizes.map(|n| vec![n as u8; n]).collect();
        let expected = messages.clone();
        send_all(&a, &mut messages, &[], Err).expect("loopback has room");
        assert!(messages.is_empty());
        let (mut inbox, mut got, mut calls) = (Inbox::new(), Vec::new(), 0);
        loop {
            let more = inbox.receive(&b, |_, _| Some(Peer::default())).expect("they wait");
            got.extend((0..inbox.len()).map(|at| inbox.packet(at).0.to_vec()));
            calls += 1;
            if !more {
                break;
            }
        }
        assert_eq!((got, calls), (expected, 3));
        let nothing = inbox.receive(&b, |_, _| Some(Peer::default()));
        assert_eq!(nothing.expect_err("nothing waits").kind(), io::ErrorKind::WouldBlock);
        assert!(inbox.is_empty(), "what was there is over");
    }

    #[test]
    fn what_is_not_kept_leaves_no_gap() {
        let (a, b) = pair();
        for message in [&b"one"[..], b"two", b"three"] {
            a.send(message).expect("sent");
        }
        let mut inbox = Inbox::new();
        let more = inbox.receive(&b, |bytes, _| (bytes != b"two").then(Peer::default));
        assert!(!more.expect("they wait"));
        assert_eq!(inbox.len(), 2);
        assert_eq!(inbox.packet(1).0, b"three");
    }

    #[test]
    fn one_that_is_refused_does_not_hold_up_the_others() {
        let (a, b) = pair();
        // No datagram may be as long as the second.
        let mut messages = vec![b"one".to_vec(), vec![0; 70_000], b"three".to_vec()];
        let mut errors = 0;
        let skip = |_| {
            errors += 1;
            Ok(false)
        };
        send_all(&a, &mut messages, &[], skip).expect("skipped");
        assert_eq!(errors, 1);
        let mut inbox = Inbox::new();
        inbox.receive(&b, |_, _| Some(Peer::default())).expect("they wait");
        assert_eq!((inbox.len(), &*inbox.packet(1).0), (2, &b"three"[..]));
    }

    #[test]
    fn reading_one_by_one_stops_at_the_first_that_is_not_there() {
        let mut inbox = Inbox::new();
        let mut left = BATCH + 5;
        let mut read = |buffer: &mut [u8]| {
            buffer[0] = left as u8;
            left = left.saturating_sub(1);
            Ok((left > 0).then_some((1, Peer::default())))
        };
        assert!(inbox.fill(&mut read).expect("no error"));
        assert_eq!(inbox.len(), BATCH);
        assert!(!inbox.fill(&mut read).expect("no error"));
        assert_eq!((inbox.len(), inbox.packet(0).0[0]), (4, 5));
    }
}
