"""The hostile corpus in the same bytes to real nginx and Caddy: what the gateway accepts, they accept too.

A gateway that is alone in accepting something is the one that a request is smuggled through. The other way round is the
gateway's choice, and written down in `corpus/peers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.corpus.peers import THEY_ACCEPT, WE_ACCEPT
from tests.security.corpus.requests import CASES, OK
from tests.support.nginx import Nginx
from tests.support.peer_proxies import all_taken, caddy_in_lanes, lanes, nginx_in_lanes
from tests.support.processes import Children

# The strict reader takes it, and the path is refused by the step behind it.
REFUSED_LATER = {"request line: escapes"}


def known_to_accept(peer: str) -> set[str]:
    return {f"{group}: {name}" for group, names in THEY_ACCEPT[peer].items() for name in names}


@pytest.mark.real
@pytest.mark.parametrize("peer", sorted(WE_ACCEPT))
async def test_what_the_gateway_accepts_a_real_proxy_accepts_or_the_reason_is_written_down(
    peer: str, nginx: Callable[..., Nginx], children: Children, tmp_path: Path
) -> None:
    async with lanes() as made:
        if peer == "nginx":
            nginx_in_lanes(nginx, made)
        else:
            caddy_in_lanes(children, tmp_path, made)
        counts = await all_taken(made, iter([(case.name, case.raw) for case in CASES]))
        accepted = {case.name: case for case in CASES if case.expect == OK and case.name not in REFUSED_LATER}
        differs = {name for name, case in accepted.items() if counts[name] != case.read} - set(WE_ACCEPT[peer])
        # On a busy machine a peer may be slow rather than of another mind.
        again = await all_taken(made, iter([(name, accepted[name].raw) for name in differs]), patience_s=4.0)
    assert {name: count for name, count in again.items() if count != accepted[name].read} == {}
    theirs = {case.name for case in CASES if case.expect != OK and counts[case.name] > case.read}
    assert theirs <= known_to_accept(peer), theirs - known_to_accept(peer)
    assert len(theirs) > 50, "the peer is there, and passes requests on"


@pytest.mark.parametrize("peer", sorted(WE_ACCEPT))
def test_the_differences_name_real_cases_of_the_right_kind(peer: str) -> None:
    kinds = {case.name: case.expect == OK for case in CASES}
    assert {kinds[name] for name in WE_ACCEPT[peer]} == {True}
    assert {kinds[name] for name in known_to_accept(peer)} == {False}
    assert all(WE_ACCEPT[peer].values())
