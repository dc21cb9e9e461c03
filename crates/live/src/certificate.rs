//! Certificates of a chosen length (RFC 5280, section 4.1; X.690 for their form).
//!
//! A certificate is signed with its own key, ECDSA on P-256. Nobody checks it. An extension without
//! a meaning makes up its length.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

/// A certificate and its private key (PKCS #8).
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Certificate {
    /// Creates a certificate of this length, or returns `None` if that is too short.
    pub(crate) fn of_length(length: usize) -> Option<Self> {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).ok()?;
        let pair = EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).ok()?;
        let mut filling = 0_usize;
        // A signature has 70 to 72 bytes, so it takes some attempts.
        for _ in 0..MOST_ATTEMPTS {
            let signed = signed_part(pair.public_key().as_ref(), filling);
            let signature = pair.sign(&random, &signed).ok()?;
            let certificate = sequence(&[
                signed,
                sequence(&[ECDSA_WITH_SHA256.to_vec()]),
                bits(signature.as_ref()),
            ]);
            if certificate.len() == length {
                return Some(Self { certificate, key: key.as_ref().to_vec() });
            }
            filling = (filling + length).checked_sub(certificate.len())?;
        }
        None
    }
}

/// Returns what is signed (`tbsCertificate`).
fn signed_part(key: &[u8], filling: usize) -> Vec<u8> {
    let name = || sequence(&[]);
    let extension = sequence(&[EXAMPLE.to_vec(), element(OCTETS, &vec![0; filling])]);
    sequence(&[
        // Version 3.
        element(0xa0, &[INTEGER, 1, 2]),
        element(INTEGER, &[1]),
        sequence(&[ECDSA_WITH_SHA256.to_vec()]),
        name(),
        sequence(&[element(UTC_TIME, b"200101000000Z"), element(UTC_TIME, b"491231235959Z")]),
        name(),
        sequence(&[sequence(&[EC_PUBLIC_KEY.to_vec(), P256.to_vec()]), bits(key)]),
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

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;

/// Object identifiers with their tag and length: RFC 5758, section 3.2, and RFC 5480, section 2.1.
const ECDSA_WITH_SHA256: [u8; 10] = [0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: [u8; 9] = [0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: [u8; 10] = [0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// 2.999, which is for examples.
const EXAMPLE: [u8; 4] = [0x06, 2, 0x88, 0x37];

const MOST_ATTEMPTS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_their_length() {
        for length in [400, 513, 1010, 4000, 70_000] {
            let found = Certificate::of_length(length).expect("it is long enough");
            assert_eq!(found.certificate.len(), length);
        }
        assert!(Certificate::of_length(200).is_none());
    }
}
