# SPDX-License-Identifier: BSD-3-Clause
"""The collectives, written once: Comm makes them at once, Comm.start starts them, Comm.persistent makes them again."""
from __future__ import annotations

import ctypes
from typing import Any, Generic, Sequence, TypeVar, Union

from . import _library
from ._errors import ArgumentError, ElementTypeError
from ._types import Buffer, Op, Operator, new_like

R = TypeVar("R")
(_ALLREDUCE, _BROADCAST, _BARRIER, _REDUCE, _REDUCE_SCATTER_BLOCK, _REDUCE_SCATTER, _ALLGATHER, _ALLGATHERV, _GATHER,
 _GATHERV, _SCATTER, _SCATTERV, _ALLTOALL, _ALLTOALLV, _SCAN, _EXSCAN) = range(16)


class _InPlace:
    def __repr__(self) -> str:
        return "tutti.IN_PLACE"


#: As the input of a collective: it is what the output buffer holds, where MPI has that, too.
IN_PLACE = _InPlace()

Counts = Sequence[int]
AnyOp = Union[Op, Operator]


def _list(values: Counts | None) -> Any:
    return None if values is None else (ctypes.c_size_t * len(values))(*values)


class Collectives(Generic[R]):
    """What every collective has in common.

    Buffers are NumPy arrays, or whatever else has the buffer protocol, contiguous and of one element type. An output
    that is not given is made, and is the result; IN_PLACE, or the same buffer twice, is MPI's in place. `algorithm` is
    as TUTTI_ALGO has it ("ring"), the same on all ranks; None: the library's choice. Sizes that do not fit each other
    are an ArgumentError, before anything is sent; other errors are those of the C functions (tutti.h).
    """

    rank: int
    size: int

    def _make(self, call: _library.Call, result: Any, keep: tuple, operator: Any) -> R:
        raise NotImplementedError

    def _bind(self, collective: int, data: Any, out: Any, *, count: int = 0, root: int = 0, op: AnyOp | None = None,
              lists: tuple = (None, None, None, None), algorithm: str | None = None, result: Any = None) -> R:
        """data, out: Buffers, IN_PLACE, or None where this rank has no use for one."""
        call = _library.Call()
        call.size, call.collective, call.root, call.count = ctypes.sizeof(call), collective, root, count
        call.in_ = _library.IN_PLACE if data is IN_PLACE else data.address if data is not None else None
        call.out = out.address if out is not None else None
        typed = [each for each in (data, out) if isinstance(each, Buffer)]
        if len(typed) == 2 and typed[0].type != typed[1].type:
            raise ElementTypeError(f"the input has elements of {typed[0].type.name}, the output of {typed[1].type.name}")
        operator = op if isinstance(op, Operator) else None
        call.type = typed[0].type if typed else 0
        call.op = int(op) if op is not None else 0
        call.algorithm = algorithm.encode() if algorithm else None
        lists = tuple(_list(each) for each in lists)
        call.in_counts, call.in_displs, call.out_counts, call.out_displs = lists
        return self._make(call, result, (data, out, operator, lists), operator)

    def _whole(self, buffer: Buffer, parts: int, what: str) -> int:
        count, rest = divmod(buffer.count, parts)
        if rest:
            raise ArgumentError(f"{what} has {buffer.count} elements, no multiple of the {parts} ranks")
        return count

    @staticmethod
    def _equal(a: int, b: int, what: str) -> None:
        if a != b:
            raise ArgumentError(f"{what}: {a} and {b} elements")

    @staticmethod
    def _extent(counts: Counts, displs: Counts | None) -> int:
        if displs is None:
            return sum(counts)
        return max((start + count for start, count in zip(displs, counts) if count), default=0)

    def _of_ranks(self, values: Counts | None, what: str) -> None:
        if values is not None and len(values) != self.size:
            raise ArgumentError(f"{what} has {len(values)} entries, for {self.size} ranks")

    def _covers(self, buffer: Buffer, counts: Counts, displs: Counts | None, what: str) -> None:
        self._of_ranks(counts, f"the counts of {what}")
        self._of_ranks(displs, f"the displacements of {what}")
        if self._extent(counts, displs) > buffer.count:
            raise ArgumentError(f"{what} has {buffer.count} elements; counts and displacements need "
                                f"{self._extent(counts, displs)}")

    def barrier(self, *, algorithm: str | None = None) -> R:
        """Until all ranks have called it."""
        return self._bind(_BARRIER, None, None, algorithm=algorithm)

    def broadcast(self, buffer: Any, root: int = 0, *, algorithm: str | None = None) -> R:
        """The root's elements come to all. Result: the buffer."""
        out = Buffer(buffer, "the buffer", write=self.rank != root)
        return self._bind(_BROADCAST, None, out, count=out.count, root=root, algorithm=algorithm, result=buffer)

    def _reducing(self, collective: int, data: Any, out: Any, op: AnyOp, algorithm: str | None) -> R:
        out = new_like(data) if out is None else out
        operator = op if isinstance(op, Operator) else None
        target = Buffer(out, "the output", True, operator)
        source: Any = IN_PLACE if data is IN_PLACE or data is out else Buffer(data, "the input", False, operator)
        if source is not IN_PLACE:
            self._equal(source.count, target.count, "input and output differ in size")
        return self._bind(collective, source, target, count=target.count, op=op, algorithm=algorithm, result=out)

    def allreduce(self, data: Any, out: Any = None, op: AnyOp = Op.SUM, *, algorithm: str | None = None) -> R:
        """out[i] = data[i] of rank 0 op data[i] of rank 1 op ..., on all ranks. Result: out."""
        return self._reducing(_ALLREDUCE, data, out, op, algorithm)

    def scan(self, data: Any, out: Any = None, op: AnyOp = Op.SUM, *, algorithm: str | None = None) -> R:
        """As allreduce, of the ranks up to this one."""
        return self._reducing(_SCAN, data, out, op, algorithm)

    def exscan(self, data: Any, out: Any = None, op: AnyOp = Op.SUM, *, algorithm: str | None = None) -> R:
        """As allreduce, of the ranks before this one; rank 0's output stays as it is (zeros, if it is made here)."""
        return self._reducing(_EXSCAN, data, out, op, algorithm)

    def reduce(self, data: Any, out: Any = None, op: AnyOp = Op.SUM, root: int = 0, *,
               algorithm: str | None = None) -> R:
        """As allreduce, to the root alone. Result: out on the root, elsewhere None."""
        operator = op if isinstance(op, Operator) else None
        if self.rank != root:
            source = Buffer(data, "the input", False, operator)
            return self._bind(_REDUCE, source, None, count=source.count, root=root, op=op, algorithm=algorithm)
        out = new_like(data) if out is None else out
        target = Buffer(out, "the output", True, operator)
        given: Any = IN_PLACE if data is IN_PLACE or data is out else Buffer(data, "the input", False, operator)
        if given is not IN_PLACE:
            self._equal(given.count, target.count, "input and output differ in size")
        return self._bind(_REDUCE, given, target, count=target.count, root=root, op=op, algorithm=algorithm,
                          result=out)

    def reduce_scatter_block(self, data: Any, out: Any = None, op: AnyOp = Op.SUM, *,
                             algorithm: str | None = None) -> R:
        """Reduces as many equal blocks as ranks; block r of the result comes to rank r. Result: out. In place, the
        result is at the beginning of the buffer."""
        return self._scattering(_REDUCE_SCATTER_BLOCK, data, None, out, op, algorithm)

    def reduce_scatter(self, data: Any, counts: Counts, out: Any = None, op: AnyOp = Op.SUM, *,
                       algorithm: str | None = None) -> R:
        """The same with blocks of counts[0], counts[1], ... elements."""
        return self._scattering(_REDUCE_SCATTER, data, counts, out, op, algorithm)

    def _scattering(self, collective: int, data: Any, counts: Counts | None, out: Any, op: AnyOp,
                    algorithm: str | None) -> R:
        operator = op if isinstance(op, Operator) else None
        whole = Buffer(out if data is IN_PLACE else data, "the input", data is IN_PLACE or data is out, operator)
        if counts is None:
            mine = self._whole(whole, self.size, "the input")
        else:
            self._of_ranks(counts, "the list of counts")
            self._equal(whole.count, sum(counts), "the input and its blocks")
            mine = counts[self.rank]
        if data is IN_PLACE or data is out:
            return self._bind(collective, IN_PLACE, whole, count=mine, op=op, algorithm=algorithm,
                              lists=(counts, None, None, None), result=out)
        out = new_like(data, count=mine) if out is None else out
        target = Buffer(out, "the output", True, operator)
        self._equal(target.count, mine, "the output and this rank's block")
        return self._bind(collective, whole, target, count=mine, op=op, algorithm=algorithm,
                          lists=(counts, None, None, None), result=out)

    def allgather(self, data: Any, out: Any = None, *, algorithm: str | None = None) -> R:
        """Rank r's elements come to block r of out on all ranks. Result: out."""
        return self._to_blocks(_ALLGATHER, data, out, 0, algorithm)

    def allgatherv(self, data: Any, counts: Counts, out: Any = None, displs: Counts | None = None, *,
                   algorithm: str | None = None) -> R:
        """The same with counts[r] elements of rank r, at displs[r] (None: one after the other)."""
        return self._to_places(_ALLGATHERV, data, counts, out, displs, 0, algorithm)

    def gather(self, data: Any, out: Any = None, root: int = 0, *, algorithm: str | None = None) -> R:
        """As allgather, to the root alone. Result: out on the root, elsewhere None."""
        if self.rank != root:
            source = Buffer(data, "the input", False)
            return self._bind(_GATHER, source, None, count=source.count, root=root, algorithm=algorithm)
        return self._to_blocks(_GATHER, data, out, root, algorithm)

    def gatherv(self, data: Any, counts: Counts | None = None, out: Any = None, displs: Counts | None = None,
                root: int = 0, *, algorithm: str | None = None) -> R:
        """The same with counts[r] elements of rank r; counts and displs are the root's alone."""
        if self.rank != root:
            source = Buffer(data, "the input", False)
            return self._bind(_GATHERV, source, None, count=source.count, root=root, algorithm=algorithm)
        if counts is None:
            raise ArgumentError("gatherv: the root needs counts")
        return self._to_places(_GATHERV, data, counts, out, displs, root, algorithm)

    def _to_blocks(self, collective: int, data: Any, out: Any, root: int, algorithm: str | None) -> R:
        out = new_like(data, times=self.size) if out is None else out
        target = Buffer(out, "the output", True)
        count = self._whole(target, self.size, "the output")
        source: Any = IN_PLACE if data is IN_PLACE else Buffer(data, "the input", False)
        if source is not IN_PLACE:
            self._equal(source.count * self.size, target.count, "the output is not one block for each rank")
        return self._bind(collective, source, target, count=count, root=root, algorithm=algorithm, result=out)

    def _to_places(self, collective: int, data: Any, counts: Counts, out: Any, displs: Counts | None, root: int,
                   algorithm: str | None) -> R:
        self._of_ranks(counts, "the list of counts")
        out = new_like(data, count=self._extent(counts, displs)) if out is None else out
        target = Buffer(out, "the output", True)
        self._covers(target, counts, displs, "the output")
        source: Any = IN_PLACE if data is IN_PLACE else Buffer(data, "the input", False)
        count = counts[self.rank] if source is IN_PLACE else source.count
        return self._bind(collective, source, target, count=count, root=root, lists=(None, None, counts, displs),
                          algorithm=algorithm, result=out)

    def scatter(self, data: Any = None, out: Any = None, root: int = 0, *, algorithm: str | None = None) -> R:
        """Block r of the root's data comes to out on rank r; elsewhere data is not looked at, and out has to be given.
        Result: out. In place (the root's out=IN_PLACE): its block stays where it is."""
        if self.rank != root:
            target = Buffer(out, "the output", True)
            return self._bind(_SCATTER, None, target, count=target.count, root=root, algorithm=algorithm, result=out)
        source = Buffer(data, "the input", False)
        count = self._whole(source, self.size, "the input")
        return self._from_root(_SCATTER, source, data, out, count, root, (None, None, None, None), algorithm)

    def scatterv(self, data: Any = None, counts: Counts | None = None, out: Any = None, displs: Counts | None = None,
                 root: int = 0, *, algorithm: str | None = None) -> R:
        """The same with counts[r] elements for rank r; counts and displs are the root's alone."""
        if self.rank != root:
            target = Buffer(out, "the output", True)
            return self._bind(_SCATTERV, None, target, count=target.count, root=root, algorithm=algorithm, result=out)
        if counts is None:
            raise ArgumentError("scatterv: the root needs counts")
        source = Buffer(data, "the input", False)
        self._covers(source, counts, displs, "the input")
        return self._from_root(_SCATTERV, source, data, out, counts[root], root, (counts, displs, None, None), algorithm)

    def _from_root(self, collective: int, source: Buffer, data: Any, out: Any, count: int, root: int, lists: tuple,
                   algorithm: str | None) -> R:
        if out is IN_PLACE:
            call_out = Buffer(data, "the input", False)
            call_out.address = _library.IN_PLACE
            return self._bind(collective, source, call_out, count=count, root=root, lists=lists, algorithm=algorithm,
                              result=data)
        out = new_like(data, count=count) if out is None else out
        target = Buffer(out, "the output", True)
        self._equal(target.count, count, "the output and the root's block")
        return self._bind(collective, source, target, count=count, root=root, lists=lists, algorithm=algorithm,
                          result=out)

    def alltoall(self, data: Any, out: Any = None, *, algorithm: str | None = None) -> R:
        """Block r of data comes to block `rank` of rank r's out. Result: out."""
        out = new_like(data) if out is None else out
        target = Buffer(out, "the output", True)
        source: Any = IN_PLACE if data is IN_PLACE or data is out else Buffer(data, "the input", False)
        if source is not IN_PLACE:
            self._equal(source.count, target.count, "input and output differ in size")
        return self._bind(_ALLTOALL, source, target, count=self._whole(target, self.size, "the output"),
                          algorithm=algorithm, result=out)

    def alltoallv(self, data: Any, in_counts: Counts | None, out: Any, out_counts: Counts,
                  in_displs: Counts | None = None, out_displs: Counts | None = None, *,
                  algorithm: str | None = None) -> R:
        """The same with in_counts[r] elements to rank r and out_counts[r] from it. out None: it is made. In place,
        in_counts and in_displs are not looked at."""
        self._of_ranks(out_counts, "the counts of the output")
        out = new_like(data, count=self._extent(out_counts, out_displs)) if out is None else out
        target = Buffer(out, "the output", True)
        self._covers(target, out_counts, out_displs, "the output")
        source: Any = IN_PLACE if data is IN_PLACE or data is out else Buffer(data, "the input", False)
        if source is not IN_PLACE:
            if in_counts is None:
                raise ArgumentError("alltoallv: in_counts is missing")
            self._covers(source, in_counts, in_displs, "the input")
        return self._bind(_ALLTOALLV, source, target, lists=(in_counts, in_displs, out_counts, out_displs),
                          algorithm=algorithm, result=out)
