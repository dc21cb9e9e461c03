//! Certificates of a chosen length (RFC 5280, section 4.1; X.690 for their form).
//!
//! A certificate is signed with its own key, Ed25519, whose signatures all have the same length.
//! Nobody checks it. An extension without a meaning and the serial number make up its length.

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// A certificate and its private key (PKCS #8).
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Certificate {
    /// Creates a certificate of this length, or returns `None` if there is none.
    pub(crate) fn of_length(length: usize) -> Option<Self> {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok()?;
        let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).ok()?;
        // The lengths of elements are longer if these are long, so no filling leads to some lengths.
        // The serial number fills most of these gaps.
        for serial in 1..=MOST_SERIAL {
            let mut filling = 0;
            for _ in 0..MOST_ATTEMPTS {
                let signed = signed_part(pair.public_key().as_ref(), serial, filling);
                let signature = pair.sign(&signed);
                let certificate =
                    sequence(&[signed, sequence(&[ED25519.to_vec()]), bits(signature.as_ref())]);
                if certificate.len() == length {
                    return Some(Self { certificate, key: key.as_ref().to_vec() });
                }
                filling = (filling + length).checked_sub(certificate.len())?;
            }
        }
        None
    }
}

/// Returns what is signed (`tbsCertificate`).
fn signed_part(key: &[u8], serial: usize, filling: usize) -> Vec<u8> {
    let name = || sequence(&[]);
    let extension = sequence(&[EXAMPLE.to_vec(), element(OCTETS, &vec![0; filling])]);
    sequence(&[
        // Version 3.
        element(0xa0, &[INTEGER, 1, 2]),
        element(INTEGER, &vec![1; serial]),
        sequence(&[ED25519.to_vec()]),
        name(),
        sequence(&[element(UTC_TIME, b"200101000000Z"), element(UTC_TIME, b"491231235959Z")]),
        name(),
        sequence(&[sequence(&[ED25519.to_vec()]), bits(key)]),
        element(0xa3, &sequence(&[extension])),
    ])
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

fn bits(content: &[u8]) -> Vec<u8> {
    // All bits of the last byte count.
    element(0x03, &[&[0], content].concat())
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|&&byte| byte == 0).count()..];
    let mut all = vec![tag];
    if content.len() < 0x80 {
        all.push(content.len() as u8);
    } else {
        all.push(0x80 | length.len() as u8);
        all.extend(length);
    }
    all.extend(content);
    all
}

/// The length of a certificate without filling.
pub(crate) const SHORTEST: usize = 186;

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;

/// The object identifier of the key and of the signature, with its tag and length (RFC 8410,
/// section 3).
const ED25519: [u8; 5] = [0x06, 3, 0x2b, 0x65, 0x70];
/// 2.999, which is for examples.
const EXAMPLE: [u8; 4] = [0x06, 2, 0x88, 0x37];

/// A filling changes the length of lengths at most three times.
const MOST_ATTEMPTS: usize = 5;
/// The most bytes of a serial number (RFC 5280, section 4.1.2.2).
const MOST_SERIAL: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_their_length() {
        for length in (SHORTEST..1500).chain([4000]).chain(65_500..65_700) {
            let found = Certificate::of_length(length);
            // There, the signed part, its parent or both get a longer length.
            let is_gap = [207, 259, 337, 65_540, 65_619].contains(&length);
            assert_eq!(found.is_none(), is_gap, "{length}");
            assert!(found.is_none_or(|found| found.certificate.len() == length));
        }
        assert!(Certificate::of_length(SHORTEST - 1).is_none());
    }
}
