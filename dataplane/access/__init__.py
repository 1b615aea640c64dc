"""Asking Access whether a caller may pass (§6): the question, the answer, and what happens while nobody answers.

    decide() -> cached decision, fresh -> answer
                call in flight for the same question -> wait for it
                decision of another replica in the shared state, fresh -> answer
                breaker open -> unavailable
                POST {access}/v1/decisions -> allow | denial | unavailable
                unavailable -> last allowing decision within the route's outage grace, else 503

`protocol`, `keys`, `breaker` and `cache` are values and arithmetic; `client` joins them to a transport that is handed
in. Everything here belongs to one event loop: nothing is locked, and every rule runs between two awaits.

Failure rules. Only a well-formed `{"allow": true}` lets a caller in, only a well-formed `{"allow": false}` is a
denial (403), and everything else is an outage (503). The breaker is kept per process, and so are decisions, since one
that is kept here costs no round trip. What replicas share stands between that and the call, under the same key and with
the same age; it is a cache and no authority, so a state that is away costs a call. `drops` has everything forgotten
when an operator drops decisions.
"""
