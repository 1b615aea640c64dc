"""WebSockets (§10): a handshake of the gateway's own with the upstream, then a relay of frames between two sockets.

    step      step 12 for a handshake: checks it, takes a place, dials, answers the caller, hands both sockets over
    handshake what a handshake must say, on either side (plain values)
    relay     two `Side`s joined by callbacks; bytes pass as they came, without being unmasked
    frames    where frames and messages begin and end, so that a Close can be sent between them (plain values)

The caller is answered once the upstream has switched, so it learns the outcome and the subprotocol. From then on no
task takes part in what passes: bytes go from the callback that read them to the other socket, and a side that does not
read stops the other from being read. The connection's task waits for the end. Whatever ends a relay, both sides are
told and released within a bound of time; a connection that cannot be vouched for any more is closed.
"""
