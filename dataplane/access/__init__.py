"""Asking Access whether a caller may pass (§6): the question, the answer, and what happens while nobody answers.

    decide() -> cached decision, fresh -> answer
                call in flight for the same question -> wait for it
                breaker open -> unavailable
                POST {access}/v1/decisions -> allow | denial | unavailable
                unavailable -> last allowing decision within the route's outage grace, else 503

`protocol`, `keys`, `breaker` and `cache` are values and arithmetic; `client` joins them to a transport that is handed
in. Everything here belongs to one event loop: nothing is locked, and every rule runs between two awaits.

Failure rules. Only a well-formed `{"allow": true}` lets a caller in, only a well-formed `{"allow": false}` is a
denial (403), and everything else is an outage (503). Decisions and breaker are kept per process: a cached decision
costs no round trip, and a replica that restarts asks again. A shared decision store would stand between the cache
here and the call, under the same key.
"""
