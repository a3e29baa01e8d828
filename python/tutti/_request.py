# SPDX-License-Identifier: BSD-3-Clause
"""Operations that have been started: waited for, tested, or awaited."""
from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Generator, Generic, TypeVar

from . import _library
from ._errors import StateError, check, last_error
from ._library import lib
from ._waiting import Task

if TYPE_CHECKING:
    from ._comm import World

T = TypeVar("T")
_main = threading.main_thread()
# How long a wait polls before it goes to sleep in a thread of its own, which takes about a tenth of that to start.
_POLL_NS = 500_000


@dataclass(frozen=True)
class Status:
    """Of a receive: where the message came from (rank), its tag, and how long it was."""
    source: int
    tag: int
    bytes: int


class Request(Generic[T]):
    """An operation under way. Its buffers are its own until it is done, and are kept until then."""

    def __init__(self, world: World, result: Callable[[Status], T], keep: tuple, operator: Any = None):
        self._world, self._result, self._keep, self._operator = world, result, keep, operator
        self._handle = ctypes.c_void_p()
        self._status = _library.Status()
        self._task: Task | None = None
        self._ended = False
        self._error: BaseException | None = None

    def _begin(self) -> Request[T]:
        self._ended, self._error, self._task = False, None, None
        self._world.active.add(self)
        return self

    def _end(self, code: int) -> None:
        if code != 0:
            self._error = last_error(code)
        self._ended = True
        self._world.active.discard(self)

    def _poll(self) -> bool:
        done = ctypes.c_int32()
        code = lib.tutti_test(self._handle, done, self._status)
        if done.value or code != 0:
            self._end(code)
            return True
        return False

    def _block(self) -> None:
        self._end(lib.tutti_wait(self._handle, self._status))

    def _asleep(self) -> Task:
        if self._task is None:
            self._task = Task(self._block)
        return self._task

    def _value(self) -> T:
        if self._operator is not None:
            self._operator.raise_error()
        if self._error is not None:
            raise self._error
        return self._result(Status(self._status.source, self._status.tag, self._status.bytes))

    def done(self) -> bool:
        """Whether it has ended, with an error or without. Lets all operations go on for a moment; never blocks."""
        if self._ended:
            return True
        return self._task.ended() if self._task is not None else self._poll()

    def wait(self) -> T:
        """Waits until it is done and gives its result: the output buffer of a collective (None where the rank has
        none), the Status of a receive. May be called again. Raises what the operation ended with. Ctrl-C ends the wait
        and not the operation."""
        if not self._ended and self._task is None:
            until = time.perf_counter_ns() + _POLL_NS
            while not self._poll() and time.perf_counter_ns() < until:
                pass
        if not self._ended:
            if self._task is None and threading.current_thread() is not _main:
                self._block()
            else:
                self._asleep().result()
        return self._value()

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            loop = asyncio.get_running_loop()
            ended = loop.create_future()

            def tell() -> None:
                try:
                    loop.call_soon_threadsafe(lambda: ended.done() or ended.set_result(None))
                except RuntimeError:  # the loop has been closed meanwhile: nobody waits any more
                    pass

            self._asleep().then(tell)
            yield from ended.__await__()
        return self._value()


class Persistent(Request[T]):
    """A call that can be started again and again: start(), wait(), start(), ..., free()."""

    def start(self) -> Persistent[T]:
        """Starts it. All ranks make the persistent calls of a communicator in one order, and start them in any."""
        check(lib.tutti_start(self._handle))
        self._begin()
        return self

    def free(self) -> None:
        """StateError while it is active."""
        check(lib.tutti_request_free(self._handle))


def wait_all(requests: list[Request]) -> list:
    """The results of all of them. The first error is raised when all have ended."""
    error: Exception | None = None
    results = []
    for request in requests:
        try:
            results.append(request.wait())
        except Exception as raised:
            error = error or raised
    if error is not None:
        raise error
    return results


def wait_any(requests: list[Request]) -> int:
    """Waits until one has ended, and gives its index; its wait() then has the result. StateError for an empty list."""
    if not requests:
        raise StateError("wait_any: there are no requests", StateError.code)
    until, ended = time.perf_counter_ns() + _POLL_NS, threading.Event()
    while True:
        for index, request in enumerate(requests):
            if request.done():
                return index
        if time.perf_counter_ns() >= until:
            for request in requests:
                request._asleep().then(ended.set)
            ended.wait()
