"""The upstream side: connections and their pool, breaker and order of upstreams, and one exchange over them.

`exchange.forward` runs the attempts of §11.4 for one request. A `Relay` joins the two sockets of an attempt by
callbacks. Failures before the response head are values (`Failure`) that decide whether the next upstream may be
tried; once the head is out a failure can only end the response.
"""
