# SPDX-License-Identifier: BSD-3-Clause
"""What ranks do: ranks.py FUNCTION, started by the tests once for each rank."""
import contextlib
import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import tutti.torch

torch.set_num_threads(1)
TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.complex64, torch.complex128]


@contextlib.contextmanager
def group(**options):
    dist.init_process_group("tutti", **options)
    yield dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()


@contextlib.contextmanager
def raises(*words, kind=RuntimeError):
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f"'{word}' is not in: {error}"
    else:
        raise AssertionError(f"nothing was raised; wanted {words}")


def values(rank, count, dtype=torch.float32):
    """Small whole numbers, exact in every type."""
    return ((torch.arange(count) * 3 + rank * 5) % 7).to(dtype)


def equal(got, wanted, what):
    assert torch.equal(got, wanted.to(got.dtype)), f"{what}: {got} instead of {wanted}"


def total(all_, dtype):
    return torch.stack([each.to(torch.complex128 if dtype.is_complex else torch.float64) for each in all_]).sum(0)


def collectives():
    """Every call and type, sync and async, against sums made here."""
    with group() as (me, size):
        for dtype in TYPES:
            for asynchronously in (False, True):
                one_of_each(me, size, dtype, asynchronously)
        truths(me, size)
        operators(me, size)
        shapes(me, size)
        into_one(me, size)
        coalesced(me, size)


def one_of_each(me, size, dtype, asynchronously):
    def call(function, *arguments, **options):
        if not asynchronously:
            assert function(*arguments, **options) is None
            return
        work = function(*arguments, **options, async_op=True)
        assert work.wait() and work.is_completed()

    all_ = [values(r, 5, dtype) for r in range(size)]
    what = f"{dtype} {'async' if asynchronously else 'sync'}"
    sums = total(all_, dtype)
    x = all_[me].clone()
    call(dist.all_reduce, x)
    equal(x, sums, f"all_reduce {what}")
    x = all_[me].clone()
    call(dist.broadcast, x, size - 1)
    equal(x, all_[-1], f"broadcast {what}")
    x = all_[me].clone()
    call(dist.reduce, x, 0)
    if me == 0:
        equal(x, sums, f"reduce {what}")
    into = [torch.zeros(5, dtype=dtype) for _ in range(size)]
    call(dist.all_gather, into, all_[me].clone())
    for r in range(size):
        equal(into[r], all_[r], f"all_gather {what}")
    into = [torch.zeros(5, dtype=dtype) for _ in range(size)] if me == 1 else None
    call(dist.gather, all_[me].clone(), into, dst=1)
    for r in range(size if me == 1 else 0):
        equal(into[r], all_[r], f"gather {what}")
    x = torch.zeros(5, dtype=dtype)
    call(dist.scatter, x, [each.clone() for each in all_] if me == 1 else None, src=1)
    equal(x, all_[me], f"scatter {what}")
    x = torch.zeros(5, dtype=dtype)
    # torch hands complex numbers on as they are here.
    call(dist.reduce_scatter, x, [values(me + r, 5, dtype) for r in range(size)])
    equal(x, total([values(r + me, 5, dtype) for r in range(size)], dtype), f"reduce_scatter {what}")
    into = [torch.zeros(2 + (r + me) % 3, dtype=dtype) for r in range(size)]
    call(dist.all_to_all, into, [values(me * size + r, 2 + (r + me) % 3, dtype) for r in range(size)])
    for r in range(size):
        equal(into[r], values(r * size + me, 2 + (r + me) % 3, dtype), f"all_to_all {what}")
    x = torch.zeros(size, 2, dtype=dtype)
    call(dist.all_to_all_single, x, torch.stack([values(me * size + r, 2, dtype) for r in range(size)]))
    equal(x, torch.stack([values(r * size + me, 2, dtype) for r in range(size)]), f"all_to_all_single {what}")
    counts = [(r + me) % 3 for r in range(size)]
    x = torch.zeros(sum(counts), 2, dtype=dtype)
    call(dist.all_to_all_single, x, torch.cat([torch.full((n, 2), me, dtype=dtype) for n in counts]), counts, counts)
    equal(x, torch.cat([torch.full((n, 2), r) for r, n in enumerate(counts)]), f"all_to_all_single by sizes {what}")
    call(dist.barrier)
    right, left = (me + 1) % size, (me - 1) % size
    x = torch.zeros(5, dtype=dtype)
    works = [dist.isend(all_[me].clone(), right, tag=3), dist.irecv(x, left, tag=3)]
    for work in works:
        work.wait()
    equal(x, all_[left], f"isend and irecv {what}")


def truths(me, size):
    x = torch.tensor([me == 0, True, False])
    dist.all_reduce(x)
    equal(x, torch.tensor([True, True, False]), "any of truths")
    x = torch.tensor([me == 0, True, False])
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    equal(x, torch.tensor([size == 1, True, False]), "all of truths")


def operators(me, size):
    Op = dist.ReduceOp
    all_ = torch.stack([values(r, 6, torch.int64) + 1 for r in range(size)])
    for op, wanted in [(Op.MIN, all_.amin(0)), (Op.MAX, all_.amax(0)), (Op.PRODUCT, all_.prod(0)),
                       (Op.BAND, fold(all_, torch.bitwise_and)), (Op.BOR, fold(all_, torch.bitwise_or)),
                       (Op.BXOR, fold(all_, torch.bitwise_xor))]:
        x = all_[me].clone()
        dist.all_reduce(x, op)
        equal(x, wanted, str(op))
    x = torch.tensor([float(me)])
    dist.all_reduce(x, Op.AVG)
    equal(x, torch.tensor([(size - 1) / 2]), "AVG")
    x = torch.tensor([4.0])
    dist.distributed_c10d._get_default_group().allreduce([x], all_reduce_options(
        torch._C._distributed_c10d._make_nccl_premul_sum(0.25))).wait()
    equal(x, torch.tensor([float(size)]), "PREMUL_SUM")
    with raises("all_reduce", "band"):
        dist.all_reduce(torch.ones(2), Op.BAND)


def all_reduce_options(op):
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def fold(all_, function):
    result = all_[0]
    for each in all_[1:]:
        result = function(result, each)
    return result


def shapes(me, size):
    """Not contiguous, empty, of no dimension, large: never wrong."""
    for make in (lambda: torch.zeros(6, 4).t(), lambda: torch.zeros(8, 3)[::2], lambda: torch.zeros(2, 3, 4, 5).to(
            memory_format=torch.channels_last), lambda: torch.zeros(()), lambda: torch.zeros(0, 3)):
        x, counted = make(), torch.arange(make().numel(), dtype=torch.float32).view(make().shape)
        x.copy_(counted + me)
        dist.all_reduce(x)
        equal(x, counted * size + sum(range(size)), f"all_reduce of strides {x.stride()}")
        x.copy_(counted + me)
        dist.broadcast(x, 1)
        equal(x, counted + 1, "broadcast")
        into = [make() for _ in range(size)]
        dist.all_gather(into, x + me)
        for r in range(size):
            equal(into[r], counted + 1 + r, "all_gather")
        if me == 0:
            dist.send(x * 2, 1)
        elif me == 1:
            dist.recv(x, 0)
            equal(x, counted * 2 + 2, "recv")
    # Sizes that differ by rank.
    into = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(into, torch.full((me + 1,), float(me)))
    for r in range(size):
        equal(into[r], torch.full((r + 1,), float(r)), "all_gather of several sizes")
    x = torch.zeros(me + 1)
    dist.reduce_scatter(x, [torch.full((r + 1,), float(r)) for r in range(size)])
    equal(x, torch.full((me + 1,), float(me * size)), "reduce_scatter of several sizes")
    x = torch.full((1 << 20,), float(me))
    dist.all_reduce(x)
    equal(x, torch.full((1 << 20,), float(sum(range(size)))), "4 MiB")


def into_one(me, size):
    x = torch.zeros(size * 3)
    dist.all_gather_into_tensor(x, torch.full((3,), float(me)))
    equal(x, torch.arange(size).repeat_interleave(3), "all_gather_into_tensor")
    x[me * 3:me * 3 + 3] = me + 10
    dist.all_gather_into_tensor(x, x[me * 3:me * 3 + 3])
    equal(x, torch.arange(size).repeat_interleave(3) + 10, "all_gather_into_tensor in place")
    x = torch.zeros(3)
    dist.reduce_scatter_tensor(x, torch.arange(size * 3).float())
    equal(x, torch.arange(me * 3, me * 3 + 3) * size, "reduce_scatter_tensor")
    whole = torch.arange(size * 3).float()
    dist.reduce_scatter_tensor(whole[me * 3:me * 3 + 3], whole)
    equal(whole[me * 3:me * 3 + 3], torch.arange(me * 3, me * 3 + 3) * size, "reduce_scatter_tensor in place")


def coalesced(me, size):
    some = [torch.full((3,), float(me)), torch.full((2, 2), float(me * 2))]
    dist.all_reduce_coalesced(some)
    equal(some[1], torch.full((2, 2), float(sum(range(size)) * 2)), "all_reduce_coalesced")
    into = [[torch.zeros(3), torch.zeros(2, 2)] for _ in range(size)]
    dist.all_gather_coalesced(into, [torch.full((3,), float(me)), torch.full((2, 2), float(me * 2))])
    for r in range(size):
        equal(into[r][0], torch.full((3,), float(r)), "all_gather_coalesced")
        equal(into[r][1], torch.full((2, 2), float(2 * r)), "all_gather_coalesced")


def works():
    """Futures, callbacks that call again, profiling names, any source, objects, many at once, several threads."""
    with group() as (me, size):
        for count in (4, 300_000):  # ends in the call, and by the group's thread
            x = torch.full((count,), float(me + 1))
            work = dist.all_reduce(x, async_op=True)
            again = work.get_future().then(
                lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
            assert again.wait()[0] == sum(range(1, size + 1)) * size
            assert work.result()[0] is x or torch.equal(work.result()[0], x)
        for count in range(15_000, 45_000, 100):  # futures that are asked for just when it ends
            x = torch.ones(count)
            work = dist.all_reduce(x, async_op=True)
            assert work.get_future().wait()[0][-1] == size
        # What nobody waits for goes on.
        x = torch.full((1 << 20,), 1.0)
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        assert x[-1] == size
        work = dist.all_reduce(torch.ones(2), async_op=True)
        work.wait()
        assert work.get_future().done() and torch.equal(work.get_future().value()[0], torch.full((2,), float(size)))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            dist.all_reduce(torch.ones(3))
            dist.barrier()
        names = {event.key for event in profile.key_averages()}
        assert {"tutti:all_reduce", "tutti:barrier"} <= names, names
        if me == 0:
            seen = set()
            for _ in range(size - 1):
                x = torch.zeros(2)
                source = dist.recv(x)
                assert x[0] == source
                seen.add(source)
            assert seen == set(range(1, size))
        else:
            dist.send(torch.full((2,), float(me)), 0)
        objects = [None] * size
        dist.all_gather_object(objects, {"rank": me, "text": "x" * me})
        assert [each["rank"] for each in objects] == list(range(size))
        many = [torch.full((i * 500 + 1,), float(me)) for i in range(60)]
        for work in reversed([dist.all_reduce(x, async_op=True) for x in many]):
            work.wait()
        assert all(x[-1] == sum(range(size)) for x in many)
        # A send that waits for its receive must not stop what is called after it.
        x = torch.full((500_000,), float(me))
        if me == 0:
            waiting = dist.isend(x, 1)
            dist.barrier()
            waiting.wait()
        else:
            dist.barrier()
            if me == 1:
                dist.recv(x, 0)
                assert x[-1] == 0
        dist.barrier()
        groups = [dist.new_group(backend="tutti") for _ in range(3)]
        sums = [0.0] * len(groups)

        def add(i):
            for _ in range(20):
                x = torch.full((1000,), float(i))
                dist.all_reduce(x, group=groups[i])
                sums[i] += x[0].item()
        threads = [threading.Thread(target=add, args=[i]) for i in range(len(groups))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sums == [20.0 * i * size for i in range(len(groups))], sums
        assert dist.get_backend() == "tutti"


def groups():
    """Groups of some ranks, by torch's numbers; a group is gone and made again."""
    with group() as (me, size):
        pair = dist.new_group([0, 2])
        if me in (0, 2):
            x = torch.full((3,), float(me))
            dist.broadcast(x, 2, group=pair)
            assert x[0] == 2 and dist.get_rank(pair) == me // 2
            x = torch.full((30_000,), 1.0)
            dist.all_reduce(x, group=pair)
            assert x[0] == 2
        dist.barrier()
        if me in (0, 2):
            dist.destroy_process_group(pair)
        with raises("root"):
            dist.broadcast(torch.ones(1), 7)
    # Not through the store that has just gone, which torch may still be about to close.
    with group(init_method=f"file://{sys.argv[2]}", rank=me, world_size=size):
        x = torch.ones(2)
        dist.all_reduce(x)
        assert x[0] == size
    with raises("initialized"):
        dist.all_reduce(torch.ones(1))


def refuses():
    """What is wrong is an error that says so, and the group goes on."""
    with group() as (me, size):
        pg = dist.distributed_c10d._get_default_group()
        with raises("Sparse", "to_dense"):
            dist.all_reduce(torch.eye(3).to_sparse())
        # Where torch's dispatcher comes first, it is torch that refuses.
        with raises("Meta"):
            dist.all_reduce(torch.ones(3, device="meta"))
        with raises("meta", "CPU tensors only"):
            pg._reduce_scatter_base(torch.ones(3, device="meta"), torch.ones(3 * size, device="meta"))
        with raises("no elements of type"):
            dist.all_reduce(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8))
        with raises("no elements of type"):
            pg._reduce_scatter_base(*[torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)] * 2)
        with raises():
            pg.allreduce([])
        with raises("2 tensors"):
            pg.allreduce([torch.ones(1), torch.ones(1)])
        with raises("differ in type"):
            pg.allgather([[torch.ones(2, dtype=torch.int32)] * size], [torch.ones(2)])
        with raises("one list of"):
            pg.allgather([[torch.ones(2)]], [torch.ones(2)])
        with raises("its place in the output"):
            pg.allgather([[torch.ones(3)] * size], [torch.ones(2)])
        with raises("elements"):
            pg._allgather_base(torch.ones(3), torch.ones(2))
        with raises("elements"):
            pg._reduce_scatter_base(torch.ones(3), torch.ones(2))
        with raises("multiple of the"):
            pg.alltoall_base(torch.ones(2 * size + 1), torch.ones(2 * size + 1), [], [])
        with raises("split sizes"):
            pg.alltoall_base(torch.ones(4), torch.ones(4), [1] * size, [4] * size)
        with raises("root"):
            pg.broadcast(torch.ones(1), 9).wait()
        with raises("ReduceOp"):
            dist.all_reduce(torch.tensor([True]), dist.ReduceOp.AVG)
        with raises("negative"):
            pg.send([torch.ones(1)], 0, -4)
        with raises("no rank 9"):
            pg.recv([torch.ones(1)], 9, 0)
        with raises("send", "rank 9"):
            pg.send([torch.ones(1)], 9, 0).wait()
        with raises("has sent 8 bytes", "has 12"):
            send = dist.isend(torch.ones(2), me)
            pg.recv([torch.ones(3)], me, 0).wait()
        send.wait()
        with raises("has 16 bytes, the receive takes 12"):
            send = dist.isend(torch.ones(4), me)
            pg.recv([torch.ones(3)], me, 0).wait()
        send.wait()
        x = torch.ones(2)
        dist.all_reduce(x)
        assert x[0] == size


def mismatch():
    """Ranks that call with different sizes all get an error that says so; a new group works."""
    with group() as (me, size):
        other = dist.new_group()
        with raises("all_reduce of", "different calls"):
            dist.all_reduce(torch.ones(3 + me))
        x = torch.ones(2)
        dist.all_reduce(x, group=other)
        assert x[0] == size


def times_out():
    """An operation that waits for longer than the group allows names who is missing, everywhere."""
    with group(timeout=datetime.timedelta(seconds=4)) as (me, size):
        dist.barrier()
        began = time.monotonic()
        if me == 0:
            work = dist.all_reduce(torch.ones(4), async_op=True)
            with raises("not done after 100 ms"):
                work.wait(datetime.timedelta(milliseconds=100))
            with raises("rank 1", "all_reduce of 4 x Float on rank 0"):
                work.wait()
            assert time.monotonic() - began < 10
        else:
            time.sleep(5.5)
            with raises("rank"):
                dist.all_reduce(torch.ones(4))  # what rank 0 has sent for it is here
                dist.barrier()


def nobody_comes():
    """A group that some ranks do not make."""
    if int(os.environ["RANK"]) == 0:
        with raises("nothing came through the store from rank 1, 2 of 3"):
            dist.init_process_group("tutti", timeout=datetime.timedelta(seconds=2))
    else:
        time.sleep(4)


def interrupted():
    """Ctrl-C ends a wait."""
    with group() as (me, size):
        x = torch.zeros(3)
        work = dist.irecv(x, me)
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        began = time.monotonic()
        with raises(kind=KeyboardInterrupt):
            work.wait()
        assert time.monotonic() - began < 5
        dist.send(torch.ones(3), me)
        work.wait()
        assert x[0] == 1


def exits():
    """Programs that end without destroying the group; one that has something under way; one in a forked child (not of
    rank 0: a child of that ends in torch's own store)."""
    dist.init_process_group("tutti")
    other = dist.new_group()
    x = torch.ones(2)
    dist.all_reduce(x, group=other)
    if dist.get_rank() != 0:
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    if sys.argv[2:] == ["busy"]:
        exits.work = dist.irecv(torch.zeros(1000), dist.get_rank())
    dist.barrier()
    print("ends")


def fails():
    """A rank ends with an exception: the other one is told, and does not hang."""
    dist.init_process_group("tutti")
    dist.barrier()
    if dist.get_rank() == 1:
        raise ValueError("it has failed")
    began = time.monotonic()
    with raises("rank 1"):
        dist.all_reduce(torch.ones(5))
    assert time.monotonic() - began < 10
    print("was told")


if __name__ == "__main__":
    if sys.argv[1] in globals():
        globals()[sys.argv[1]]()
    else:
        import training
        getattr(training, sys.argv[1])()
