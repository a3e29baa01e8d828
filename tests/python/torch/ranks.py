# SPDX-License-Identifier: BSD-3-Clause
"""What ranks do: ranks.py FUNCTION, started by the tests once for each rank."""
import datetime
import importlib
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import tutti.torch
from checks import group, raises


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
        store = dist.distributed_c10d._get_default_store()
        if me == 0:
            work = dist.all_reduce(torch.ones(4), async_op=True)
            with raises("not done after 100 ms"):
                work.wait(datetime.timedelta(milliseconds=100))
            with raises("rank 1", "all_reduce of 4 x Float on rank 0"):
                work.wait()
            store.set("timed out", "yes")
        else:
            store.wait(["timed out"], datetime.timedelta(seconds=60))
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
        timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
        with raises(kind=KeyboardInterrupt):
            timer.start()
            work.wait()  # for ever
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
    assert time.monotonic() - began < 25, "not before silence is taken for death, which is after 30 s"
    print("was told")


if __name__ == "__main__":
    for module in ("__main__", "calls", "completion", "training"):
        function = getattr(importlib.import_module(module), sys.argv[1], None)
        if function is not None:
            function()
            break
    else:
        sys.exit(f"there is no {sys.argv[1]}")
