"""Starts the workers, replaces the ones that end or stand still, adds up their numbers, and drains them all."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

import orjson

from common.telemetry.log import Log
from dataplane.workers.link import Link
from dataplane.workers.port import ReservedPort
from dataplane.workers.scrapes import Question, Scrapes
from dataplane.workers.signals import Signals
from dataplane.workers.slot import Slot
from dataplane.workers.totals import Totals
from dataplane.workers.wire import Kind, Message
from dataplane.workers.worker import WHERE_IT_STANDS, Place

HANG_AFTER_S = 30.0
"""A worker whose event loop turns no more for so long stands still: nothing that it does in one go takes a second."""
DUMP_S = 1.0
"""What a worker that stands still gets for writing where, before it is killed."""
DRAIN_SLACK_S = 5.0
"""Beyond GATEWAY_SHUTDOWN_TIMEOUT_MS, at which workers begin to close WebSockets in order and to let go of the rest."""
LOOK_EVERY_S = 1.0
ABSENT_S = 2.0
"""Woken so much too late, this process did not run, and neither did its workers: the machine slept, or all were
stopped."""


class Supervisor:
    """One thread that waits for signals, links and times. It has no event loop: it forks as long as it runs."""

    def __init__(
        self,
        workers: int,
        port: ReservedPort,
        work: Callable[[Place], int],
        log: Log,
        *,
        shutdown_timeout_s: float,
        tls_port: ReservedPort | None = None,
        hang_after_s: float = HANG_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`work` is called in a process of its own for each worker; what it returns is that process's exit code."""
        self._port = port
        self._tls_port = tls_port
        self._work = work
        self._log = log
        self._shutdown_timeout_s = shutdown_timeout_s
        self._hang_after_s = hang_after_s
        self._clock = clock
        self._slots = [Slot(number) for number in range(1, workers + 1)]
        self._totals = Totals()
        self._scrapes = Scrapes()
        self._started = False
        self._drain_until: float | None = None
        self._code = 0
        self._selector = selectors.DefaultSelector()
        self._signals = Signals((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))
        self._selector.register(self._signals.socket, selectors.EVENT_READ)

    def run(self) -> int:
        """Until the last worker has ended; the exit code: 0 when all drained by themselves."""
        try:
            for slot in self._slots:
                self._start(slot)
        except OSError as error:
            self._log.error("the workers cannot be started", exc=error)
            self._drain(exit_code=1)
        last = self._clock()
        while self._drain_until is None or any(slot.pid for slot in self._slots):
            wait_s = min((LOOK_EVERY_S, *(max(0.0, due - last) for due in self._times())))
            events = self._selector.select(wait_s)
            now = self._clock()
            # From pass to pass, wherever in the last one this process was stopped.
            self._forgive(now - last - wait_s)
            last = now
            for number in self._signals.read():
                self._signalled(number)
            for key, mask in events:
                if key.data is not None:
                    self._linked(key.data, mask)
            self._reap()
            self._look(now)
        self._close_ports()
        self._log.info("all workers have ended", exitCode=self._code)
        return self._code

    def _close_ports(self) -> None:
        for port in (self._port, self._tls_port):
            if port is not None:
                port.close()

    def _times(self) -> Iterator[float]:
        """The moments at which there is something to do."""
        if self._scrapes.running:
            yield self._scrapes.deadline
        if self._drain_until is not None:
            yield self._drain_until
        for slot in self._slots:
            if slot.kill_at is not None:
                yield slot.kill_at
            if not slot.pid and self._drain_until is None:
                yield slot.due

    def _forgive(self, late_s: float) -> None:
        if late_s > ABSENT_S:
            for slot in self._slots:
                slot.heard += late_s

    # Starting

    def _start(self, slot: Slot) -> None:
        """Fork a worker. `OSError` when the system has no socket or process for one."""
        if not slot.sockets:
            slot.sockets = self._port.sockets()
            if self._tls_port is not None:
                slot.tls_sockets = self._tls_port.sockets()
        ours, theirs = socket.socketpair()
        # A signal between fork and the child's own handlers would be told to this process, in the child's name.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                self._become(slot, ours, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        slot.pid, slot.ready, slot.kill_at = pid, False, None
        slot.started = slot.heard = self._clock()
        slot.link = Link(ours)
        self._selector.register(ours, selectors.EVENT_READ, slot)

    def _become(self, slot: Slot, ours: socket.socket, theirs: socket.socket) -> NoReturn:
        """In the child: let go of everything that is not this worker's, work, end."""
        code = 1
        try:
            ours.close()
            self._selector.close()
            self._signals.leave_to_child()
            self._close_ports()
            for other in self._slots:
                if other.link is not None:
                    other.link.close()
                if other is not slot:
                    other.close_sockets()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            code = self._work(Place(slot.number, slot.sockets, slot.tls_sockets, theirs))
        except BaseException as error:  # noqa: BLE001 (nothing above this frame is the child's to run)
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            where = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
            self._log.error("a worker failed", worker=slot.number, error=type(error).__name__, frames=where)
        finally:
            os._exit(code)

    # What workers say

    def _linked(self, slot: Slot, mask: int) -> None:
        if slot.link is None:
            return
        if mask & selectors.EVENT_WRITE:
            slot.link.flush()
            self._watch(slot)
        if mask & selectors.EVENT_READ:
            self._read(slot, slot.link)

    def _read(self, slot: Slot, link: Link) -> bool:
        """Take what a worker said; False once nothing more will come: its end is closed, or not to be understood."""
        try:
            messages = link.read()
        except ValueError as error:
            self._log.error("a worker says what is no message; it is replaced", worker=slot.number, exc=error)
            os.kill(slot.pid, signal.SIGKILL)
            messages = None
        if messages is None:
            self._unlink(slot, link)
            return False
        slot.heard = self._clock()
        for message in messages:
            self._told(slot, message)
        return bool(messages)

    def _unlink(self, slot: Slot, link: Link) -> None:
        self._selector.unregister(link.socket)
        link.close()
        slot.link = None

    def _told(self, slot: Slot, message: Message) -> None:
        if message.kind is Kind.READY:
            slot.ready = True
            if not self._started and all(each.ready for each in self._slots):
                self._started = True
                self._log.info("all workers are ready", workers=len(self._slots), port=self._port.number)
        elif message.kind is Kind.NUMBERS:
            self._totals.tell(slot.number, orjson.loads(message.payload))
            self._scrapes.told(slot.number, message.number)
        elif message.kind is Kind.ASK and self._scrapes.ask(Question(slot.number, message.number)):
            self._begin_round()

    def _begin_round(self) -> None:
        asked = [slot for slot in self._slots if slot.ready]
        number = self._scrapes.begin({slot.number for slot in asked}, self._clock())
        for slot in asked:
            self._say(slot, Kind.COLLECT, number)

    def _end_round(self) -> None:
        questions, silent = self._scrapes.end()
        text = self._totals.render(self._states(silent))
        for question in questions:
            self._say(self._slots[question.worker - 1], Kind.TOTALS, question.number, text)
        if self._scrapes.waiting:
            self._begin_round()

    def _states(self, silent: int) -> dict[str, int]:
        ready = sum(slot.ready for slot in self._slots)
        running = sum(slot.pid != 0 for slot in self._slots)
        return {
            "ready": ready - silent,
            "silent": silent,
            "starting": running - ready,
            "waiting": len(self._slots) - running,
        }

    def _say(self, slot: Slot, kind: Kind, number: int, payload: bytes = b"") -> None:
        if slot.link is not None:
            slot.link.send(kind, number, payload)
            self._watch(slot)

    def _watch(self, slot: Slot) -> None:
        if slot.link is not None:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if slot.link.has_unsent else 0)
            self._selector.modify(slot.link.socket, events, slot)

    # Ends and replacements

    def _reap(self) -> None:
        """Take note of every child that has ended, of strangers too: as process 1 this one inherits them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for slot in self._slots:
                if slot.pid == pid:
                    self._ended(slot, os.waitstatus_to_exitcode(status))

    def _ended(self, slot: Slot, code: int) -> None:
        """A worker has ended; `code` is minus the signal where one ended it."""
        while slot.link is not None:
            if not self._read(slot, slot.link):  # up to its last words
                break
        if slot.link is not None:
            self._unlink(slot, slot.link)
        self._totals.end(slot.number)
        self._scrapes.left(slot.number)
        pid, hung, ran_s = slot.pid, slot.kill_at is not None, self._clock() - slot.started
        slot.pid, slot.ready, slot.kill_at = 0, False, None
        how = {"signal": signal.Signals(-code).name} if code < 0 else {"exitCode": code}
        about = {"worker": slot.number, "pid": pid, **how, "ranMs": round(ran_s * 1000)}
        if self._drain_until is not None:
            self._log.debug("a worker has ended", **about)
        elif not self._started:
            self._log.error("a worker could not start; it says why in a line before this one", **about)
            self._drain(exit_code=128 - code if code < 0 else code or 1)
        else:
            self._totals.count_end("hang" if hung else "signal" if code < 0 else "exit")
            # One that ended in order was told to; callers in its queue wait for the next.
            pause_s = slot.restarts.pause_s(ran_s) if code else 0.0
            slot.due = self._clock() + pause_s
            if pause_s:
                # Callers that wait in its queue are lost, but new ones go to workers that are there.
                slot.close_sockets()
            self._log.warning("a worker has ended and is replaced", **about, inMs=round(pause_s * 1000))

    def _look(self, now: float) -> None:
        """Do what is due."""
        if self._scrapes.is_over(now):
            self._end_round()
        if self._drain_until is not None and now >= self._drain_until:
            self._kill_all("the drain took too long: what was left is cut", exit_code=1)
        for slot in self._slots:
            if slot.pid:
                self._look_after(slot, now)
            elif self._drain_until is None and now >= slot.due:
                self._restart(slot)

    def _look_after(self, slot: Slot, now: float) -> None:
        if slot.kill_at is None and now - slot.heard > self._hang_after_s:
            self._log.error(
                "a worker stands still and is replaced; where it stands is on standard error",
                worker=slot.number,
                pid=slot.pid,
                silentMs=round((now - slot.heard) * 1000),
            )
            os.kill(slot.pid, WHERE_IT_STANDS)
            slot.kill_at = now + DUMP_S
        elif slot.kill_at is not None and now >= slot.kill_at:
            os.kill(slot.pid, signal.SIGKILL)

    def _restart(self, slot: Slot) -> None:
        try:
            self._start(slot)
        except OSError as error:
            pause_s = slot.restarts.pause_s(0.0)
            slot.due = self._clock() + pause_s
            self._log.error("no worker can be started", worker=slot.number, exc=error, inMs=round(pause_s * 1000))

    # Signals

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP:
            for slot in self._slots:
                if slot.pid:
                    os.kill(slot.pid, signal.SIGHUP)
        elif number in (signal.SIGTERM, signal.SIGINT):
            if self._drain_until is None:
                self._drain(exit_code=0)
            else:
                self._kill_all("ended at once by a second signal: open requests are cut", exit_code=128 + number)

    def _drain(self, *, exit_code: int) -> None:
        """Have every worker finish what is open and end."""
        self._code = exit_code
        self._drain_until = self._clock() + self._shutdown_timeout_s + DRAIN_SLACK_S
        self._log.info("draining all workers", timeoutMs=round(self._shutdown_timeout_s * 1000))
        for slot in self._slots:
            # First here: a socket listens, and fills its queue, as long as one process has it open.
            slot.close_sockets()
            if slot.pid:
                os.kill(slot.pid, signal.SIGTERM)

    def _kill_all(self, why: str, *, exit_code: int) -> None:
        left = [slot for slot in self._slots if slot.pid]
        if left:
            self._log.warning(why, workers=[slot.number for slot in left])
            self._code = exit_code
        for slot in left:
            os.kill(slot.pid, signal.SIGKILL)
        self._drain_until = float("inf")
