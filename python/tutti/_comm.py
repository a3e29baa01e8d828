# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: bring-up, collectives, messages, and what is made from them."""
from __future__ import annotations

import atexit
import ctypes
import json
import os
import threading
import time
import weakref
from ctypes import byref
from typing import Any, Callable, Sequence

from . import _library
from ._collectives import Collectives
from ._errors import ArgumentError, StateError, check
from ._library import lib
from ._request import Persistent, Request, Status
from ._types import Buffer, Type, type_of
from ._waiting import Task, interruptible

ANY_SOURCE = -1
ANY_TAG = -1
NO_RANK = -2
UNDEFINED = -1

# How long the end of the interpreter waits for the other ranks of a world that was not freed.
_LEAVE_SECONDS = 5.0
_worlds: "weakref.WeakSet[World]" = weakref.WeakSet()


class World:
    """What all communicators of one tutti_init share: its handle, and the requests under way, which are kept alive."""

    def __init__(self, handle: ctypes.c_void_p):
        self.handle = handle
        self.active: set[Request] = set()
        self.pid = os.getpid()
        _worlds.add(self)

    def query(self, what: str) -> Any:
        return _read_json(lambda text, room: lib.tutti_query(self.handle, what.encode(), text, room))

    def free(self) -> None:
        check(lib.tutti_comm_free(byref(self.handle)))

    def leave(self) -> None:
        """At the interpreter's end, where the program has not freed it: others are met if they come, too, soon."""
        if not self.handle or self.pid != os.getpid():  # a forked child has copies only
            return
        if self.active:
            lib.tutti_abort(self.handle)
        handle = self.handle.value
        task = Task(self.free)
        if not task._ended.wait(_LEAVE_SECONDS):
            lib.tutti_abort(handle)
            task._ended.wait(_LEAVE_SECONDS)


def _leave_all() -> None:
    for world in list(_worlds):
        world.leave()


atexit.register(_leave_all)


def _read_json(call: Callable[[Any, Any], int]) -> Any:
    bytes_ = ctypes.c_size_t(0)
    check(call(None, byref(bytes_)))
    while True:  # what it tells may have grown meanwhile
        room = ctypes.c_size_t(bytes_.value + 256)
        text = ctypes.create_string_buffer(room.value)
        bytes_ = ctypes.c_size_t(room.value)
        check(call(text, byref(bytes_)))
        if bytes_.value <= room.value:
            return json.loads(text.value.decode())


def describe(what: str) -> Any:
    """What this process could use, without a world: "version", "devices", "topology", "tuning" or "config", as of JSON."""
    return _read_json(lambda text, room: lib.tutti_describe(what.encode(), text, room))


class _Started(Collectives[Request]):
    def __init__(self, comm: Comm):
        self._comm, self.rank, self.size = comm, comm.rank, comm.size

    def _make(self, call: _library.Call, result: Any, keep: tuple, operator: Any) -> Request:
        request: Request = Request(self._comm._world, lambda status: result, keep, operator)
        check(lib.tutti_start_call(call, self._comm._handle, request._handle))
        return request._begin()

    def _message(self, function: Callable, buffer: Buffer, rank: int, tag: int,
                 result: Callable[[Status], Any]) -> Request:
        request: Request = Request(self._comm._world, result, (buffer,))
        check(function(buffer.address, buffer.count, buffer.type, rank, tag, self._comm._handle, request._handle))
        return request._begin()

    def send(self, data: Any, to: int, tag: int = 0) -> Request[None]:
        """Done when the buffer may be used again."""
        return self._message(lib.tutti_isend, Buffer(data, "the message", False), to, tag, lambda status: None)

    def ssend(self, data: Any, to: int, tag: int = 0) -> Request[None]:
        """Done not before its receive has begun."""
        return self._message(lib.tutti_issend, Buffer(data, "the message", False), to, tag, lambda status: None)

    def recv(self, buffer: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Status]:
        """Its result says where the message came from, and how long it was."""
        return self._message(lib.tutti_irecv, Buffer(buffer, "the buffer", True), source, tag, lambda status: status)


class _Repeated(Collectives[Persistent]):
    def __init__(self, comm: Comm):
        self._comm, self.rank, self.size = comm, comm.rank, comm.size

    def _make(self, call: _library.Call, result: Any, keep: tuple, operator: Any) -> Persistent:
        request: Persistent = Persistent(self._comm._world, lambda status: result, keep, operator)
        check(lib.tutti_call_init(call, self._comm._handle, request._handle))
        request._ended = True
        return request


class Comm(Collectives[Any]):
    """Ranks that call together. Made by tutti.init() and from other communicators.

    comm.allreduce(x) and the other collectives block and give their result; comm.start.allreduce(x) gives a Request,
    comm.persistent.allreduce(x) a Persistent. Calls may come from several threads, in the same order on all ranks.
    The interpreter's lock is given up while a call waits, and Ctrl-C ends the wait in the main thread.
    """

    def __init__(self, world: World, handle: ctypes.c_void_p):
        self._world, self._handle = world, handle
        rank, size = ctypes.c_int32(), ctypes.c_int32()
        check(lib.tutti_comm_rank(handle, byref(rank)))
        check(lib.tutti_comm_size(handle, byref(size)))
        self.rank, self.size = rank.value, size.value
        #: The same collectives and messages, started only.
        self.start = _Started(self)
        #: The same collectives, made once and started again and again.
        self.persistent = _Repeated(self)

    def __repr__(self) -> str:
        return f"<tutti.Comm rank {self.rank} of {self.size}{'' if self._handle else ', freed'}>"

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.abort()
        try:
            self.free()
        except Exception:
            if kind is None:
                raise

    def _make(self, call: _library.Call, result: Any, keep: tuple, operator: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return self.start._make(call, result, keep, operator).wait()
        check(lib.tutti_run_call(call, self._handle))
        if operator is not None:
            operator.raise_error()
        return result

    def send(self, data: Any, to: int, tag: int = 0) -> None:
        """Blocks until the buffer may be used again."""
        self.start.send(data, to, tag).wait()

    def ssend(self, data: Any, to: int, tag: int = 0) -> None:
        """Blocks until the receive has begun."""
        self.start.ssend(data, to, tag).wait()

    def recv(self, buffer: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status:
        """Blocks until a message has come. TruncatedError if it is longer than the buffer."""
        return self.start.recv(buffer, source, tag).wait()

    def sendrecv(self, data: Any, to: int, buffer: Any, source: int = ANY_SOURCE, send_tag: int = 0,
                 recv_tag: int = ANY_TAG) -> Status:
        """Sends and receives at once."""
        receive = self.start.recv(buffer, source, recv_tag)
        self.start.send(data, to, send_tag).wait()
        return receive.wait()

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status | None:
        """Of a message that such a receive would get now; None if there is none."""
        found, status = ctypes.c_int32(), _library.Status()
        check(lib.tutti_iprobe(source, tag, self._handle, byref(found), byref(status)))
        return Status(status.source, status.tag, status.bytes) if found.value else None

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status:
        """Waits until there is one."""
        until = time.perf_counter_ns() + 500_000
        while time.perf_counter_ns() < until:
            found = self.iprobe(source, tag)
            if found is not None:
                return found
        status = _library.Status()
        interruptible(lambda: check(lib.tutti_probe(source, tag, self._handle, byref(status))))
        return Status(status.source, status.tag, status.bytes)

    def _make_comm(self, call: Callable[[Any], int]) -> Comm | None:
        made = ctypes.c_void_p()
        interruptible(lambda: check(call(byref(made))))
        return Comm(self._world, made) if made else None

    def split(self, colour: int, key: int = 0) -> Comm | None:
        """Ranks of the same colour (0 or more) form one, ordered by key, then by rank; None for UNDEFINED."""
        return self._make_comm(lambda made: lib.tutti_comm_split(self._handle, colour, key, made))

    def dup(self) -> Comm:
        """The same ranks again."""
        made = self._make_comm(lambda made: lib.tutti_comm_dup(self._handle, made))
        assert made is not None
        return made

    def create(self, ranks: Sequence[int]) -> Comm | None:
        """The listed ranks, in that order; None on the others. All ranks call it with the same list."""
        listed = (ctypes.c_int32 * len(ranks))(*ranks)
        return self._make_comm(lambda made: lib.tutti_comm_create(self._handle, len(ranks), listed, made))

    def shrink(self) -> Comm:
        """After a PeerError: those who live call it, and get the same communicator, without the dead."""
        made = self._make_comm(lambda made: lib.tutti_comm_shrink(self._handle, made))
        assert made is not None
        return made

    def failed(self) -> list[int]:
        """The members that are known to be dead here."""
        count = ctypes.c_size_t(self.size)
        ranks = (ctypes.c_int32 * self.size)()
        check(lib.tutti_comm_failed(self._handle, byref(count), ranks))
        return list(ranks[:count.value])

    def translate(self, ranks: Sequence[int], to: Comm) -> list[int]:
        """What ranks of this one are in `to`; UNDEFINED for one that is not in it."""
        given, seen = (ctypes.c_int32 * len(ranks))(*ranks), (ctypes.c_int32 * len(ranks))()
        check(lib.tutti_comm_translate(self._handle, len(ranks), given, to._handle, seen))
        return list(seen)

    def set_algorithms(self, algorithms: str) -> None:
        """As TUTTI_ALGO has them ("allreduce:ring"), for calls from here on."""
        check(lib.tutti_comm_set_algorithms(self._handle, algorithms.encode()))

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        """A NumPy array in memory of tutti_alloc: on the device's NUMA node, registered once. Goes with the array,
        which has to go before the world does."""
        import numpy
        dtype = numpy.dtype(dtype)
        count = int(numpy.prod(shape))
        memory = ctypes.c_void_p()
        check(lib.tutti_alloc(self._handle, count * dtype.itemsize, byref(memory)))
        if not memory:
            return numpy.empty(shape, dtype)
        block = (ctypes.c_char * (count * dtype.itemsize)).from_address(memory.value or 0)
        weakref.finalize(block, _give_back, self._world, memory)
        return numpy.frombuffer(block, dtype).reshape(shape)

    def query(self, what: str) -> Any:
        """The world, as of JSON: "devices", "links", "selection", "choice COLLECTIVE BYTES", "tuning", "memory",
        "statistics", "operations" or "config"."""
        return _read_json(lambda text, room: lib.tutti_query(self._handle, what.encode(), text, room))

    def abort(self) -> None:
        """Ends all traffic of this process's world, here and now; others see this rank leave. From any thread."""
        check(lib.tutti_abort(self._handle))

    def free(self) -> None:
        """Collective. The world's own ends everything. StateError while requests of the world are active."""
        is_world = self._handle is self._world.handle
        if is_world and self._world.active and self._handle:
            raise StateError(f"{len(self._world.active)} operations are under way: wait for them before the world is "
                             f"freed, or abort() it", StateError.code)
        handle = self._handle.value
        interruptible(lambda: check(lib.tutti_comm_free(byref(self._handle))),
                      interrupted=lambda: lib.tutti_abort(handle))


def _give_back(world: World, memory: ctypes.c_void_p) -> None:
    if world.handle:
        lib.tutti_free(world.handle, memory)


def init(*, rank: int | None = None, size: int | None = None,
         allgather: Callable[[bytes], Sequence[bytes]] | None = None, device: str | None = None,
         timeout: float | None = None, operation_timeout: float | None = None) -> Comm:
    """Brings up the world: collective.

    Without arguments ranks meet as the environment says (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun and
    tutti-run set them; alone: one rank). With rank, size and allgather they meet through that function: it gives its
    bytes to all ranks, and gets those of all, in order; it is called a fixed number of times. device: as TUTTI_DEVICE.
    timeout: seconds that start-up may take. operation_timeout: as TUTTI_TIMEOUT, in seconds.
    """
    options = _library.Options()
    options.size, options.threads = ctypes.sizeof(options), 1  # waits are made by threads of their own
    options.timeout_ms = int((timeout or 0) * 1000)
    options.operation_timeout_ms = int((operation_timeout or 0) * 1000)
    options.device = device.encode() if device else None
    handle = ctypes.c_void_p()
    if allgather is None:
        if rank is not None or size is not None:
            raise ArgumentError("init: rank and size go with allgather; the environment has its own")
        interruptible(lambda: check(lib.tutti_init(None, byref(options), byref(handle))))
        world = World(handle)
        return Comm(world, handle)
    if rank is None or size is None:
        raise ArgumentError("init: allgather needs rank and size")
    raised: list[BaseException] = []

    def exchange(_: Any, given: int, out: int, bytes_each: int) -> int:
        try:
            parts = allgather(ctypes.string_at(given, bytes_each))
            if len(parts) != size or any(len(part) != bytes_each for part in parts):
                raise ArgumentError(f"allgather gave {[len(part) for part in parts]} bytes, and not {bytes_each} of each "
                                    f"of {size} ranks")
            ctypes.memmove(out, b"".join(bytes(part) for part in parts), bytes_each * size)
            return 0
        except BaseException as error:  # nothing may be thrown through the library
            raised.append(error)
            return 1

    bootstrap = _library.Bootstrap()
    bootstrap.size, bootstrap.rank, bootstrap.ranks = ctypes.sizeof(bootstrap), rank, size
    bootstrap.allgather = _library.ALLGATHER(exchange)
    code = lib.tutti_init(byref(bootstrap), byref(options), byref(handle))
    if raised:
        raise raised[0]
    check(code)
    return Comm(World(handle), handle)


def from_mpi4py(comm: Any, **options: Any) -> Comm:
    """The world among the ranks of an mpi4py communicator: collective over it. MPI only lets ranks meet. Takes the
    options of init()."""
    return init(rank=comm.Get_rank(), size=comm.Get_size(), allgather=comm.allgather, **options)


__all__ = ["ANY_SOURCE", "ANY_TAG", "Comm", "NO_RANK", "Type", "UNDEFINED", "describe", "from_mpi4py", "init", "type_of"]
