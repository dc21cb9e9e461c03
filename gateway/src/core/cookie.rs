//! The cookie: what a SYN offered, stored in the SYN/ACK's sequence number and timestamp
//! (PROTOCOL.md, "The cookie").
//!
//! ```text
//! ISN   = [ slot & 1 : 1 | class : 4 | mac : 27 ]
//! TSval = [ MSS : 14 | window scale : 4 | SACK : 1 | HEARD : 1 | tag : 12 ]
//! ```
//!
//! Linux's cookie (`net/ipv4/syncookies.c`, 6.1) knows four classes of MSS. This one knows sixteen,
//! and the client's own MSS if its segment has the timestamps. The hash is SipHash-2-4 (Aumasson,
//! Bernstein 2012).

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use siphasher::sip::SipHasher24;

use super::CookieKey;

/// What is known about a client from its SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The largest payload that it accepts; without timestamps, the nearest class that is not above
    /// it.
    pub(super) mss: u16,
    /// Whether it uses timestamps.
    pub(super) timestamps: bool,
    /// Its window scale, at most 14, or [`NO_SCALE`]; only with timestamps.
    pub(super) wscale: u8,
    /// Whether it understands selective acknowledgements; only with timestamps.
    pub(super) sack: bool,
}

/// No window scale was offered.
pub(super) const NO_SCALE: u8 = 15;

/// The two ends of a connection, and where the client's sequence numbers begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    /// The client's initial sequence number.
    pub(super) client_isn: u32,
}

/// 0 in a SYN/ACK's timestamp, and 1 in those of an entry's segments. A client that echoes 1 has
/// received one of those.
pub(super) const HEARD: u32 = 1 << 12;

/// What the SYN/ACK carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie {
    /// Our initial sequence number.
    pub(super) isn: u32,
    /// Our timestamp; 0 without timestamps.
    pub(super) tsval: u32,
}

/// Makes the cookie for a handshake. `wall` is the time since 1970.
pub(super) fn make(key: CookieKey, handshake: Handshake, offer: Offer, wall: Duration) -> Cookie {
    let (slot, class) = (slot(wall), class(offer.mss));
    let hash = hash(key, handshake, slot, class);
    let tsval = if offer.timestamps { untagged(offer) | tag(hash) } else { 0 };
    Cookie { isn: isn(slot, class, hash), tsval }
}

/// Returns what the SYN offered, if `isn` is a cookie that was made with one of `keys` in this slot
/// or the one before. `tsecr` is the segment's, if it has timestamps. A client may leave out
/// timestamps that it offered, and then only its MSS is known. The previous key counts only while
/// its last cookies live; after that, it would only serve to guess cookies.
pub(super) fn check(
    keys: Keys<'_>,
    handshake: Handshake,
    isn: u32,
    tsecr: Option<u32>,
    wall: Duration,
) -> Option<Offer> {
    let now = slot(wall);
    // The cookie's slot bit says which of the two it is.
    let slot = now.wrapping_sub((now ^ isn >> 31) & 1);
    let class = class_in(isn, tsecr)?;
    let [present, previous] = *keys.keys;
    let hash = [Some(present), (wall < keys.previous_until).then_some(previous)]
        .into_iter()
        .flatten()
        .map(|key| hash(key, handshake, slot, class))
        .find(|hash| fits(*hash, isn))?;
    let offer = tsecr.filter(|tsval| tsval & TAG == tag(hash)).and_then(offer_of);
    Some(offer.unwrap_or(Offer { mss: CLASSES[class as usize], ..Offer::NOTHING }))
}

/// Returns whether `isn` is a cookie of ours that expired, about nine minutes ago at most.
pub(super) fn was(
    keys: Keys<'_>,
    handshake: Handshake,
    isn: u32,
    tsecr: Option<u32>,
    wall: Duration,
) -> bool {
    let now = slot(wall);
    let slot = now.wrapping_sub((now ^ isn >> 31) & 1);
    let Some(class) = class_in(isn, tsecr) else { return false };
    let changed = self::slot(keys.previous_until.saturating_sub(PREVIOUS));
    (1..=OLD).map(|back| slot.wrapping_sub(2 * back)).any(|slot| {
        let before = (slot.wrapping_sub(changed) as i32) < 0;
        fits(hash(keys.keys[usize::from(before)], handshake, slot, class), isn)
    })
}

/// Returns the class in a cookie. `None` if the client echoes a timestamp of an entry: its
/// connection is past its first data.
fn class_in(isn: u32, tsecr: Option<u32>) -> Option<u32> {
    tsecr.is_none_or(|tsval| tsval & HEARD == 0).then_some(isn >> 27 & 0xf)
}

/// Returns whether a cookie has this hash.
fn fits(hash: u64, isn: u32) -> bool {
    (isn ^ hash as u32) & MAC == 0
}

/// The keys of cookies, as in the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys<'a> {
    pub(super) keys: &'a [CookieKey; 2],
    pub(super) previous_until: Duration,
}

/// How long the previous key is accepted after a change: the lifetime of a cookie, plus one slot
/// for clocks that differ.
const PREVIOUS: Duration = Duration::from_secs(3 * SLOT_SECONDS);
/// How many slots back, in steps of two, an expired cookie is still recognised.
const OLD: u32 = 8;

impl Offer {
    /// Returns what a cookie keeps of the offer.
    pub(super) fn kept(self) -> Self {
        let mss = if self.timestamps {
            self.mss.clamp(CLASSES[0], MSS_MAX)
        } else {
            CLASSES[class(self.mss) as usize]
        };
        Self { mss, ..self }
    }

    /// The offer of a SYN without options. The MSS must be filled in.
    pub(super) const NOTHING: Self =
        Self { mss: 0, timestamps: false, wscale: NO_SCALE, sack: false };
}

/// Classes of MSS.
const CLASSES: [u16; 16] =
    [88, 256, 536, 1200, 1220, 1240, 1300, 1360, 1400, 1412, 1420, 1440, 1452, 1460, 8940, 8960];
/// The largest MSS that a timestamp can hold.
const MSS_MAX: u16 = 0x3fff;
/// The bits of a timestamp that hold its tag.
const TAG: u32 = 0xfff;
/// The bits of an ISN that hold its MAC.
const MAC: u32 = 0x07ff_ffff;
/// The length of a slot.
const SLOT_SECONDS: u64 = 32;

/// The longest life of a cookie.
pub(super) const LIFE: Duration = Duration::from_secs(2 * SLOT_SECONDS);

/// Returns the slot at `wall`, the time since 1970.
fn slot(wall: Duration) -> u32 {
    (wall.as_secs() / SLOT_SECONDS) as u32
}

/// Returns the largest class that is not above `mss`; the first one if all are.
fn class(mss: u16) -> u32 {
    CLASSES.iter().rposition(|&class| class <= mss).unwrap_or(0) as u32
}

fn isn(slot: u32, class: u32, hash: u64) -> u32 {
    (slot & 1) << 31 | class << 27 | hash as u32 & MAC
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & TAG
}

/// Returns the timestamp for an offer, with tag 0.
fn untagged(offer: Offer) -> u32 {
    u32::from(offer.kept().mss) << 18 | u32::from(offer.wscale) << 14 | u32::from(offer.sack) << 13
}

/// Returns the offer in a timestamp; `None` if we would not have made it.
fn offer_of(tsval: u32) -> Option<Offer> {
    let offer = Offer {
        mss: (tsval >> 18) as u16,
        timestamps: true,
        wscale: (tsval >> 14 & 0xf) as u8,
        sack: tsval & 1 << 13 != 0,
    };
    (untagged(offer) == tsval & !TAG).then_some(offer)
}

fn hash(key: CookieKey, handshake: Handshake, slot: u32, class: u32) -> u64 {
    let Handshake { client, server, client_isn } = handshake;
    let mut message = [0; 48];
    message[..16].copy_from_slice(&mapped(client.ip()));
    message[16..32].copy_from_slice(&mapped(server.ip()));
    message[32..34].copy_from_slice(&client.port().to_be_bytes());
    message[34..36].copy_from_slice(&server.port().to_be_bytes());
    message[36..40].copy_from_slice(&client_isn.to_be_bytes());
    message[40..44].copy_from_slice(&slot.to_be_bytes());
    message[44..].copy_from_slice(&class.to_be_bytes());
    siphash(key, &message)
}

/// Returns SipHash-2-4 of `message`.
pub(super) fn siphash(key: CookieKey, message: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(key.k0, key.k1);
    hasher.write(message);
    hasher.finish()
}

/// Returns the address as 16 bytes, IPv4 as ::ffff:a.b.c.d.
pub(super) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CookieKey = CookieKey { k0: 0x0706_0504_0302_0100, k1: 0x0f0e_0d0c_0b0a_0908 };
    const OTHER: CookieKey = CookieKey { k0: 1, k1: 2 };
    const ONE: Keys<'_> = Keys { keys: &[KEY, KEY], previous_until: Duration::ZERO };
    const FULL: Offer = Offer { mss: 1460, timestamps: true, wscale: 7, sack: true };

    fn handshake() -> Handshake {
        Handshake {
            client: "192.0.2.1:40000".parse().expect("an address"),
            server: "192.0.2.53:53".parse().expect("an address"),
            client_isn: 0x1234_5678,
        }
    }

    fn wall(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn check_at(key: CookieKey, cookie: Cookie, timestamps: bool, at: Duration) -> Option<Offer> {
        let keys = Keys { keys: &[key, key], previous_until: Duration::ZERO };
        check(keys, handshake(), cookie.isn, timestamps.then_some(cookie.tsval), at)
    }

    /// Aumasson and Bernstein, "SipHash: a fast short-input PRF", appendix A; the others are from
    /// their reference code.
    #[test]
    fn the_authors_vectors() {
        let message: [u8; 64] = core::array::from_fn(|i| i as u8);
        for (length, hash) in [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (7, 0xab02_00f5_8b01_d137),
            (8, 0x93f5_f579_9a93_2462),
            (15, 0xa129_ca61_49be_45e5),
        ] {
            assert_eq!(siphash(KEY, &message[..length]), hash, "{length} bytes");
        }
    }

    #[test]
    fn with_timestamps_the_mss_is_exact() {
        for mss in [88, 536, 1219, 1220, 1459, 8959, 16_383] {
            for wscale in [0, 7, 14, NO_SCALE] {
                let offer = Offer { mss, wscale, ..FULL };
                let cookie = make(KEY, handshake(), offer, wall(1000));
                assert_eq!(check_at(KEY, cookie, true, wall(1000)), Some(offer));
            }
        }
    }

    #[test]
    fn an_mss_out_of_range_becomes_the_nearest() {
        for (mss, kept) in [(0, 88), (87, 88), (16_384, 16_383), (65_535, 16_383)] {
            let cookie = make(KEY, handshake(), Offer { mss, ..FULL }, wall(0));
            assert_eq!(check_at(KEY, cookie, true, wall(0)).map(|offer| offer.mss), Some(kept));
        }
    }

    #[test]
    fn without_timestamps_the_mss_is_that_of_its_class() {
        for (mss, kept) in
            [(0, 88), (88, 88), (535, 256), (536, 536), (1219, 1200), (1460, 1460), (9000, 8960)]
        {
            let cookie = make(KEY, handshake(), Offer { mss, ..Offer::NOTHING }, wall(0));
            let offer = Offer { mss: kept, ..Offer::NOTHING };
            assert_eq!(check_at(KEY, cookie, false, wall(0)), Some(offer));
        }
    }

    #[test]
    fn a_cookie_holds_for_its_slot_and_the_next() {
        for start in [320, 352] {
            for offer in [FULL, Offer { mss: 1460, ..Offer::NOTHING }] {
                let cookie = make(KEY, handshake(), offer, wall(start));
                let right = |at| check_at(KEY, cookie, offer.timestamps, wall(at)).is_some();
                assert!(
                    right(start) && right(start + 31) && right(start + 32) && right(start + 63)
                );
                assert!(!right(start + 64) && !right(start + 96) && !right(start - 1));
            }
        }
    }

    #[test]
    fn the_key_before_is_accepted_until_its_time_is_over() {
        let cookie = make(KEY, handshake(), FULL, wall(1000));
        let accepts = |keys: &[_; 2], until| {
            let keys = Keys { keys, previous_until: wall(until) };
            check(keys, handshake(), cookie.isn, Some(cookie.tsval), wall(1000)).is_some()
        };
        assert!(accepts(&[KEY, OTHER], 0) && accepts(&[OTHER, KEY], 1001));
        assert!(!accepts(&[OTHER, KEY], 1000) && !accepts(&[OTHER, OTHER], 1001));
    }

    /// Recognised by the key that made it, on either side of a change.
    #[test]
    fn a_cookie_that_is_too_old_is_told_for_nine_minutes() {
        let changed = 3200;
        let keys = Keys { keys: &[KEY, OTHER], previous_until: wall(changed + 96) };
        for (key, start) in [(OTHER, changed - 32), (KEY, changed), (KEY, changed + 32)] {
            for offer in [FULL, Offer { mss: 1460, ..Offer::NOTHING }] {
                let cookie = make(key, handshake(), offer, wall(start));
                let tsecr = offer.timestamps.then_some(cookie.tsval);
                let old = |at| was(keys, handshake(), cookie.isn, tsecr, wall(at));
                assert!(!old(start) && !old(start + 63));
                assert!(old(start + 64) && old(start + 70) && old(start + 17 * 32));
                assert!(!old(start + 18 * 32));
                assert!(!was(keys, handshake(), cookie.isn ^ 1, tsecr, wall(start + 70)));
            }
        }
    }

    /// Changes every bit of the cookie, and every field that it covers.
    #[test]
    fn anything_else_is_no_cookie() {
        for timestamps in [true, false] {
            let offer = if timestamps { FULL } else { Offer { mss: 1460, ..Offer::NOTHING } };
            let Cookie { isn, tsval } = make(KEY, handshake(), offer, wall(0));
            let tsecr = timestamps.then_some(tsval);
            for bit in 0..32 {
                assert_eq!(check(ONE, handshake(), isn ^ 1 << bit, tsecr, wall(0)), None);
            }
            let mut others = [handshake(); 4];
            others[0].client_isn += 1;
            others[1].client.set_port(40_001);
            others[2].client.set_ip([192, 0, 2, 2].into());
            others[3].server.set_ip([192, 0, 2, 54].into());
            for other in others {
                assert_eq!(check(ONE, other, isn, tsecr, wall(0)), None, "{other:?}");
            }
        }
    }

    /// The client leaves out its timestamps, sends some that were not agreed on, or a box on the
    /// way writes others.
    #[test]
    fn without_our_timestamp_only_the_mss_is_known() {
        let plain = Offer { mss: 1460, ..Offer::NOTHING };
        for offer in [FULL, plain] {
            let Cookie { isn, tsval } = make(KEY, handshake(), offer, wall(0));
            let check = |tsecr| check(ONE, handshake(), isn, tsecr, wall(0));
            assert_eq!(check(None), Some(plain));
            assert_eq!(check(Some(0)), Some(plain));
            for bit in 0..12 {
                assert_eq!(check(Some(tsval ^ 1 << bit)), Some(plain), "bit {bit}");
            }
            assert_eq!(check(Some(tsval | HEARD)), None);
        }
    }
}
