//! TLS for DNS (RFC 7858, RFC 9250): settings for connections that are measured, not trusted.
//!
//! Certificates are not checked: a probe asks servers by address, which their certificates seldom
//! name (the opportunistic profile of RFC 7858, section 4.1), and it measures time. Signatures of
//! the handshake are checked, so that it takes as long as for a client that trusts the certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};

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
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    // Each connection has the same handshake; a resumed one would be a different measurement.
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// A verifier that accepts any certificate, and checks that the server has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

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
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
