"""The port of several workers is theirs alone, from the supervisor's start to its end."""

from __future__ import annotations

import errno
import socket

import pytest

from dataplane.workers.port import reserve_port


def bind_fails(port: int) -> bool:
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def test_a_free_port_is_taken_and_kept_while_nobody_listens() -> None:
    port = reserve_port("127.0.0.1", 0)
    assert port.number > 0
    assert bind_fails(port.number)
    for sock in port.sockets():
        sock.close()
    assert bind_fails(port.number)
    port.close()
    assert not bind_fails(port.number)


def test_each_worker_gets_a_listening_socket_of_its_own() -> None:
    port = reserve_port("127.0.0.1", 0)
    workers = [port.sockets() for _ in range(3)]
    for sockets in workers:
        (sock,) = sockets
        sock.listen()
    callers = [socket.create_connection(("127.0.0.1", port.number)) for _ in range(60)]
    taken = []
    for (sock,) in workers:
        count = 0
        while True:
            try:
                sock.accept()[0].close()
            except BlockingIOError:
                break
            count += 1
        taken.append(count)
        sock.close()
    assert sum(taken) == 60
    assert all(taken)
    for caller in callers:
        caller.close()
    port.close()


def test_a_port_on_which_somebody_listens_is_refused_even_where_he_would_share_it() -> None:
    first = reserve_port("127.0.0.1", 0)
    (listening,) = first.sockets()
    listening.listen()
    with pytest.raises(OSError, match="Address already in use"):
        reserve_port("127.0.0.1", first.number)
    listening.close()
    first.close()


def test_every_address_of_a_name_has_the_same_port() -> None:
    port = reserve_port("localhost", 0)
    sockets = port.sockets()
    assert {sock.getsockname()[1] for sock in sockets} == {port.number}
    for sock in sockets:
        sock.close()
    port.close()


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(OSError, match="Cannot assign"):
        reserve_port("192.0.2.1", 0)
