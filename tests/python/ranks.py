# SPDX-License-Identifier: BSD-3-Clause
"""What ranks do: ranks.py FUNCTION, started by the tests once for each rank."""
import asyncio
import os
import signal
import sys
import threading
import time

import numpy as np
import tutti
from tutti import IN_PLACE, Op

TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32,
         np.float64, np.complex64, np.complex128]


def values(rank, count, dtype):
    """Small whole numbers, exact in every type."""
    return ((np.arange(count) * 3 + rank * 5) % 7).astype(dtype)


def equal(got, wanted, what):
    assert np.array_equal(got, wanted), f"{what}: {got} instead of {wanted}"


def collectives():
    """Every collective and type, blocking, started and persistent, against NumPy."""
    with tutti.init() as world:
        ranks, me = range(world.size), world.rank
        ways = {"blocking": (world, lambda given: given),
                "started": (world.start, lambda given: given.wait()),
                "persistent": (world.persistent, repeat)}
        for name, (comm, end) in ways.items():
            for dtype in TYPES if name == "blocking" else [np.float64]:
                what = f"{name} {np.dtype(dtype)}"
                mine = values(me, 4, dtype)
                all_ = np.array([values(r, 4, dtype) for r in ranks])
                total = all_.sum(axis=0, dtype=dtype)
                equal(end(comm.allreduce(mine)), total, f"allreduce {what}")
                here = mine.copy()
                assert end(comm.allreduce(IN_PLACE, here)) is here
                if name != "persistent":  # which reduces its own results again
                    equal(here, total, f"allreduce in place {what}")
                equal(end(comm.allgather(mine)), all_, f"allgather {what}")
                equal(end(comm.broadcast(mine.copy(), root=1 % world.size)), all_[1 % world.size], f"broadcast {what}")
                equal(end(comm.scan(mine)), all_[:me + 1].sum(axis=0, dtype=dtype), f"scan {what}")
                equal(end(comm.exscan(mine)), all_[:me].sum(axis=0, dtype=dtype), f"exscan {what}")
                result = end(comm.reduce(mine, root=0))
                assert (result is None) == (me != 0)
                result = end(comm.gather(mine, root=world.size - 1))
                if me == world.size - 1:
                    equal(result, all_, f"gather {what}")
                blocks = np.array([values(r, 2 * world.size, dtype) for r in ranks])
                equal(end(comm.alltoall(blocks[me])), blocks.reshape(world.size, world.size, 2)[:, me].ravel(),
                      f"alltoall {what}")
                equal(end(comm.reduce_scatter_block(blocks[me])),
                      blocks.sum(axis=0, dtype=dtype).reshape(world.size, 2)[me], f"reduce_scatter_block {what}")
                counts = [r + 1 for r in ranks]
                starts = np.cumsum([0, *counts])
                some = np.array([values(r, sum(counts), dtype) for r in ranks])
                equal(end(comm.reduce_scatter(some[me], counts)),
                      some.sum(axis=0, dtype=dtype)[starts[me]:starts[me + 1]], f"reduce_scatter {what}")
                joined = np.concatenate([values(r, r + 1, dtype) for r in ranks])
                equal(end(comm.allgatherv(values(me, me + 1, dtype), counts)), joined, f"allgatherv {what}")
                result = end(comm.gatherv(values(me, me + 1, dtype), counts))
                if me == 0:
                    equal(result, joined, f"gatherv {what}")
                block = np.empty(me + 1, dtype)
                end(comm.scatterv(joined if me == 0 else None, counts, block))
                equal(block, values(me, me + 1, dtype), f"scatterv {what}")
                block = np.empty(4, dtype)
                equal(end(comm.scatter(all_ if me == 0 else None, block)), mine, f"scatter {what}")
                to = [(me + r) % 3 for r in ranks]
                sent = np.concatenate([values(me, n, dtype) for n in to])
                wanted = np.concatenate([values(r, (r + me) % 3, dtype) for r in ranks])
                equal(end(comm.alltoallv(sent, to, None, to)), wanted, f"alltoallv {what}")
                end(comm.barrier())
        operators(world)


def repeat(request):
    for _ in range(3):
        result = request.start().wait()
    request.free()
    return result


def operators(world):
    me, ranks = world.rank, range(world.size)
    all_ = np.array([values(r, 5, np.int32) for r in ranks])
    for op, wanted in [(Op.MIN, all_.min(axis=0)), (Op.MAX, all_.max(axis=0)), (Op.PROD, all_.prod(axis=0)),
                       (Op.BAND, np.bitwise_and.reduce(all_)), (Op.BXOR, np.bitwise_xor.reduce(all_)),
                       (Op.LOR, np.any(all_, axis=0))]:
        equal(world.allreduce(all_[me], op=op), wanted, op.name)
    equal(world.allreduce(np.array([me + 1.0]), op=Op.AVG), [np.mean([r + 1 for r in ranks])], "AVG")
    truths = np.array([True, me == 0])
    equal(world.allreduce(truths, op=Op.LAND), [True, world.size == 1], "LAND")
    pairs = np.zeros(1, tutti.value_index(np.float32))
    pairs["value"], pairs["index"] = abs(me - 1), me
    found = world.allreduce(pairs, op=Op.MAXLOC)
    assert found["index"][0] == (0 if world.size < 4 else world.size - 1), found
    quarter = tutti.Operator.premul_sum(0.25, np.float64)
    equal(world.allreduce(np.array([4.0]), op=quarter), [float(world.size)], "premul_sum")
    # Of the program's own, and in the order of ranks: 2x2 matrices.
    matrix = np.dtype((np.int64, (2, 2)))

    def multiply(a, b):
        b[:] = a @ b

    product = tutti.Operator(multiply, matrix, commutes=False)
    matrices = [np.array([[[1, r], [1, 1]]]) for r in ranks]
    wanted = matrices[0][0]
    for each in matrices[1:]:
        wanted = wanted @ each[0]
    equal(world.allreduce(matrices[me], op=product)[0], wanted, "an operator of its own")
    product.free()
    broken = tutti.Operator(lambda a, b: 1 / 0, np.int64)
    try:
        world.allreduce(np.zeros(3, np.int64), op=broken)
        raised = False
    except ZeroDivisionError:
        raised = True
    # Who combines depends on the algorithm; of two ranks at least one does.
    assert world.allreduce(np.array([raised]), op=Op.LOR)[0]


def messages():
    """Blocking and started ones, any source, probes, statuses, truncation."""
    with tutti.init() as world:
        me, size = world.rank, world.size
        right, left = (me + 1) % size, (me - 1) % size
        got = np.zeros(3)
        status = world.sendrecv(np.full(3, float(me)), right, got, left, send_tag=7)
        assert status == tutti.Status(left, 7, 24) and got[0] == left
        receives = [world.start.recv(bytearray(4), r) for r in range(size)]
        sends = [world.start.ssend(b"abc", r, tag=r) for r in range(size)]
        assert tutti.wait_any(receives) in range(size)
        assert [s.bytes for s in tutti.wait_all(receives)] == [3] * size
        tutti.wait_all(sends)
        if me == 0:
            for r in range(1, size):
                world.send(np.arange(r), r, tag=3)
        else:
            status = world.probe(tag=3)
            assert status == tutti.Status(0, 3, me * 8), status
            world.recv(np.zeros(me, np.int64))
        world.send(b"long", me)
        try:
            world.recv(bytearray(2), me)
            assert False, "a message that is too long was taken"
        except tutti.TruncatedError as error:
            assert error.name == "truncated"
        assert world.iprobe() is None


def communicators():
    """split, dup, create, translate, algorithms; several threads."""
    with tutti.init() as world:
        half = world.split(world.rank % 2, key=-world.rank)
        members = [r for r in reversed(range(world.size)) if r % 2 == world.rank % 2]
        assert half.size == len(members) and members[half.rank] == world.rank
        assert half.translate([half.rank], world) == [world.rank]
        assert world.split(tutti.UNDEFINED) is None
        first = world.create([0])
        assert (first is None) == (world.rank != 0)
        copy = world.dup()
        copy.set_algorithms("allreduce:ring")
        assert copy.allreduce(np.array([1]))[0] == world.size
        copy.free()
        try:
            copy.barrier()
            assert False, "a freed communicator was used"
        except tutti.CommError:
            pass
        # A thread a communicator; the main one makes calls, too.
        comms = [world.dup() for _ in range(3)]
        sums = [0] * len(comms)

        def add(i):
            for _ in range(50):
                sums[i] += comms[i].allreduce(np.array([i + 1]))[0]

        threads = [threading.Thread(target=add, args=[i]) for i in range(len(comms))]
        for thread in threads:
            thread.start()
        for _ in range(50):
            world.barrier()
        for thread in threads:
            thread.join()
        assert sums == [50 * world.size * (i + 1) for i in range(len(comms))], sums


def awaited():
    """Requests in asyncio: others of the loop go on meanwhile, and many wait at once."""
    async def main(world):
        me, size = world.rank, world.size
        beats = 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.001)

        beating = asyncio.create_task(beat())
        got = [np.zeros(1) for _ in range(size)]
        receives = [world.start.recv(got[r], r, tag=1) for r in range(size)]
        waiting = asyncio.gather(*[each_of(receive) for receive in receives])
        until = beats + 6
        while beats < until:
            await asyncio.sleep(0.001)
        for r in range(size):
            await world.start.send(np.array([float(me)]), r, tag=1)
        statuses = await waiting
        assert [status.source for status in statuses] == list(range(size)), statuses
        assert [each[0] for each in got] == list(range(size))
        total = await world.start.allreduce(np.array([1]))
        assert total[0] == size
        beating.cancel()

    async def each_of(request):
        return await request

    with tutti.init() as world:
        asyncio.run(main(world))


def interrupted():
    """Ctrl-C ends a wait, and neither the operation nor the world."""
    with tutti.init() as world:
        got = np.zeros(1)
        receive = world.start.recv(got, world.rank, tag=4)
        timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        try:
            timer.start()
            receive.wait()  # for ever
            assert False, "the wait was not interrupted"
        except KeyboardInterrupt:
            pass
        assert not receive.done()
        world.send(np.array([8.0]), world.rank, tag=4)
        assert receive.wait().bytes == 8 and got[0] == 8
        assert world.allreduce(np.array([1]))[0] == world.size


def death():
    """A rank is killed: the others get PeerError with its number, shrink, and go on."""
    world = tutti.init()
    world.barrier()
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        while True:
            world.allreduce(np.ones(10))
    except tutti.PeerError as error:
        assert error.peer == 1 and "1" in error.text, error
    assert time.monotonic() - began < 25, "not before silence is taken for death, which is after 30 s"
    living = world.shrink()
    assert world.failed() == [1] and living.size == world.size - 1
    assert living.allreduce(np.array([1]))[0] == living.size
    world.free()
    print("went on")


def mismatch():
    """Ranks that call with different sizes."""
    world = tutti.init()
    try:
        world.allreduce(np.ones(1 + world.rank))
        assert False, "nothing was noticed"
    except tutti.MismatchError as error:
        assert "allreduce" in error.text, error
    world.abort()
    try:
        world.barrier()
        assert False, "an aborted world was used"
    except tutti.TuttiError:
        pass
    world.free()


def timeout():
    """A receive that nobody serves, with a limit."""
    world = tutti.init(operation_timeout=1)
    try:
        world.recv(bytearray(1), (world.rank + 1) % world.size, tag=9)
        assert False, "it did not time out"
    except tutti.TimeoutError as error:
        assert "receive with tag 9" in error.text, error
    world.free()


def wait_long_at_the_end():
    """What needs all of the time that the end of the interpreter has for the other ranks hangs."""
    tutti._comm._LEAVE_SECONDS = 1000.0


def exits():
    """Ends without freeing the world, as programs do."""
    wait_long_at_the_end()
    world = tutti.init()
    print(world.allreduce(np.array([1.0])))


def exits_with_a_request():
    wait_long_at_the_end()
    world = tutti.init()
    world.barrier()
    world.start.recv(np.zeros(10), 0, tag=5)


def mpi():
    """Over mpi4py; nothing of MPI is used after that."""
    from mpi4py import MPI
    with tutti.from_mpi4py(MPI.COMM_WORLD) as world:
        assert (world.rank, world.size) == (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
        assert world.allreduce(np.array([world.rank]))[0] == sum(range(world.size))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
