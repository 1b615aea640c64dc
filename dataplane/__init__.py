"""The data plane: authenticates a caller, asks Access, and forwards the request with a signed identity.

The walk of one request::

    net.connection -> http1 (bytes to RequestHead) -> dispatcher -> upstream.exchange -> http1 -> net

One task serves one downstream connection; an exchange keeps the snapshot of the route table it began with.
"""
