"""The `SSLContext` of handshakes with callers, after Mozilla's intermediate profile, and how a key gets into one."""

from __future__ import annotations

import os
import ssl

from dataplane.tls.certificate import Certificate, CertificateRefused

# https://ssl-config.mozilla.org, intermediate, without its finite-field DHE: forward secrecy and AEAD for every suite.
# The suites of TLS 1.3 are all of that kind, and are not chosen here. Level 2 refuses keys under 112 bits of strength
# and SHA-1, whatever the system's OpenSSL was built with.
CIPHERS = (
    "@SECLEVEL=2:"
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)
PROTOCOLS = ["http/1.1"]


def server_context(min_version: ssl.TLSVersion) -> ssl.SSLContext:
    """A context for callers, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = min_version
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(PROTOCOLS)
    # Compression tells of secrets (CRIME); renegotiation lets a caller cost the server many handshakes.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    # Every suite is good, so the caller's order counts: a phone without AES in hardware prefers ChaCha20.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    return context


def load_identity(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Let the context present the certificate. `CertificateRefused` when OpenSSL does not take it.

    OpenSSL reads chain and key from a path only; a file in memory keeps the key off every disk.
    """
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as memory:
            memory.write(certificate.chain)
            memory.write(certificate.key.reveal().encode("ascii"))
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable").lower().replace("_", " ")
        raise CertificateRefused(f"{certificate.source}: OpenSSL does not take it: {reason}") from None
    finally:
        os.close(descriptor)
