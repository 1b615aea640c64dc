"""Keys of cached decisions: a decision is kept under the very question that it answers."""

from __future__ import annotations

from hashlib import blake2b

_PLAIN_QUESTION_MAX_BYTES = 256
"""A common question is its own key, since hashing it costs more than comparing it. A longer one (many roles, a long
subject) is kept by its digest, so that what a caller brings does not decide how much memory a decision takes."""


def service_digest(url: str) -> bytes:
    """16 bytes that stand for the Access service behind `url`: a key holds them, so that a decision of one service
    never answers for another.
    """
    return blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16, person=b"wicket.access.1").digest()


def decision_key(service: bytes, question: bytes) -> bytes:
    """The key of a decision: injective in (`service`, `question`) up to collisions of BLAKE2b-256, at most 272 bytes.

    `question` comes from `protocol.question` and so holds subject, workspace or its absence, route and roles, each
    in its own place of a JSON object: no value can reach into its neighbour.
    """
    if len(question) <= _PLAIN_QUESTION_MAX_BYTES:
        return service + question
    # A question begins with `{`, so a digest marked with `#` is never read as one.
    return b"%b#%b" % (service, blake2b(question, digest_size=32).digest())
