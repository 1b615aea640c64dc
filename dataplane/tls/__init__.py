"""TLS of the callers: certificates, where they come from, and the contexts that handshakes use (§11.5).

    files, or an authority -> read_certificate -> Certificate -> CertificateStore.install -> one assignment
    handshake -> CertificateStore.context -> the certificate of the name that the caller asks for

Certificates are read and judged without I/O. The store is replaced whole: a handshake uses what stands there at its
moment, and open connections go on with what they began with. A certificate that cannot be served changes nothing.
Everything belongs to one event loop.
"""
