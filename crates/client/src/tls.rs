//! TLS for DNS (RFC 7858, RFC 9250): settings for connections that are measured, not trusted.
//!
//! Certificates are not checked: a probe asks servers by address, which their certificates seldom
//! name (the opportunistic profile of RFC 7858, section 4.1), and it measures time. Signatures of
//! the handshake are checked, so that it takes as long as for a client that trusts the certificate.
//! The certificate may have any version: BIND's `tls ephemeral` makes one of version 1, which has no
//! extensions (RFC 5280, section 4.1.2.1).

use std::sync::Arc;

use der::{Decode as _, Header, Reader as _, SliceReader};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version,
};
use webpki::RawPublicKeyEntity;

/// Returns settings for DNS over TLS.
pub(crate) fn over_tcp() -> ClientConfig {
    config(&[&version::TLS13, &version::TLS12], b"dot")
}

/// Returns settings for DNS over QUIC, which only uses TLS 1.3 (RFC 9001).
pub(crate) fn over_quic() -> ClientConfig {
    config(&[&version::TLS13], b"doq")
}

fn config(versions: &[&'static rustls::SupportedProtocolVersion], protocol: &[u8]) -> ClientConfig {
    let provider = Arc::new(crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .expect("the provider has suites for both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody::new(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    // Each connection has the same handshake; a resumed one would be a different measurement.
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// A verifier that accepts any certificate, and checks that the server has its key.
#[derive(Debug)]
pub struct Anybody(Arc<CryptoProvider>);

impl Anybody {
    /// Creates a verifier with the algorithms of a provider.
    pub const fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = public_key(certificate)?;
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| BAD_ENCODING)?;
        let known = self.0.signature_verification_algorithms.mapping;
        // In TLS 1.2 an ECDSA scheme names no curve, so several algorithms may fit.
        let algorithms = known.iter().filter(|known| known.0 == signature.scheme);
        let valid = algorithms
            .flat_map(|(_, algorithms)| *algorithms)
            .any(|one| key.verify_signature(*one, message, signature.signature()).is_ok());
        if valid { Ok(HandshakeSignatureValid::assertion()) } else { Err(BAD_SIGNATURE) }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        let key = public_key(certificate)?;
        crypto::verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

const BAD_ENCODING: Error = Error::InvalidCertificate(CertificateError::BadEncoding);
const BAD_SIGNATURE: Error = Error::InvalidCertificate(CertificateError::BadSignature);

/// Returns the key of a certificate (`subjectPublicKeyInfo`; RFC 5280, section 4.1).
fn public_key<'a>(
    certificate: &'a CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    let read = || -> der::Result<&'a [u8]> {
        let mut certificate = SliceReader::new(certificate)?;
        Header::decode(&mut certificate)?;
        let mut signed = SliceReader::new(certificate.tlv_bytes()?)?;
        Header::decode(&mut signed)?;
        // The version is absent in version 1. Serial number, algorithm, issuer, validity and
        // subject come next.
        let version = signed.peek_byte() == Some(VERSION);
        for _ in 0..5 + usize::from(version) {
            signed.tlv_bytes()?;
        }
        signed.tlv_bytes()
    };
    read().map(SubjectPublicKeyInfoDer::from).map_err(|_| BAD_ENCODING)
}

/// The tag of the field `version`: context-specific, constructed, number 0.
const VERSION: u8 = 0xa0;
