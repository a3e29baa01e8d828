# SPDX-License-Identifier: BSD-3-Clause
"""Who completes a call: its caller, who waits, or the group's thread. What ranks.py runs by these names."""
import datetime
import random
import sys
import threading
import time

import torch
import torch.distributed as dist
import tutti.torch
from checks import group, raises

LARGE = 300_000  # elements: more than ends in the call


def moves():
    """A call moves while its caller computes, whatever the caller did before: the other rank cannot end without it."""
    with group() as (me, size):
        store = dist.FileStore(sys.argv[2], size)
        for turn in range(24):
            for _ in range((0, 1, 5)[turn % 3]):  # calls that are waited for at once come before
                dist.all_reduce(torch.ones(LARGE))
            if turn % 4 == 3:
                time.sleep(0.03)  # the thread is asleep
            x = torch.full((1 << 20,), 1.0)
            if me == 0:
                work = dist.all_reduce(x, async_op=True)
                until = time.monotonic() + 60
                while store.num_keys() <= turn:  # computes
                    assert time.monotonic() < until, "nothing moves"
                if turn % 2:
                    work.wait()
                else:
                    del work
            else:
                dist.all_reduce(x)
                store.set(f"ended {turn}", "yes")
            dist.barrier()
            assert x[-1] == size


def mixed():
    """Calls of all sizes that end in every way, in any order, by several threads with a group each."""
    with group() as (me, size):
        groups = [dist.new_group() for _ in range(2)]
        failures = []

        def wait(work):
            assert work.wait()

        def poll(work):
            while not work.is_completed():
                time.sleep(0)

        def wait_for_a_while(work):
            while True:
                try:
                    work.wait(datetime.timedelta(milliseconds=2))
                    return
                except RuntimeError as error:
                    assert "still under way" in str(error), error

        def future(work):
            work.get_future().wait()

        def run(number):
            try:
                # Calls are the same on all ranks, what is done about them is not.
                same, own = random.Random(number), random.Random(number * 100 + me)
                open_ = []
                for _ in range(150):
                    count = same.choice([1, 1000, 20_000, 70_000, LARGE])
                    x = torch.full((count,), float(me + 1))
                    if own.random() < 0.3:
                        time.sleep(own.random() / 500)
                    open_.append((dist.all_reduce(x, group=groups[number], async_op=True), x))
                    while open_ and (len(open_) > 5 or own.random() < 0.6):
                        work, x = open_.pop(own.randrange(len(open_)))
                        own.choice([wait, wait, poll, wait_for_a_while, future])(work)
                        assert x[0] == x[-1] == sum(range(1, size + 1)), x
                for work, x in open_:
                    work.wait()
            except BaseException as error:  # noqa: BLE001: told in the main thread
                failures.append(error)
        threads = [threading.Thread(target=run, args=[i]) for i in range(len(groups))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


def destroyed():
    """Groups that are destroyed with calls under way, and tensors that only these have: no hang, and clear errors."""
    interval = sys.getswitchinterval()
    with group() as (me, size):
        for turn in range(4):
            sys.setswitchinterval(1e-5 if turn % 2 else interval)
            other = dist.new_group()
            for i in range(1, 5):
                work = dist.all_reduce(torch.ones(100_000 * i), group=other, async_op=True)
            waiting = dist.irecv(torch.zeros(10), me, group=other)
            del work
            dist.destroy_process_group(other)
            del other
            with raises("recv of 10 x Float on rank"):  # destroyed here, or left by the other one
                waiting.wait()
        sys.setswitchinterval(interval)
        # The thread is about to let go of a tensor, for which it needs the interpreter, when it is told to stop.
        other = dist.new_group()
        dist.all_reduce(torch.ones(LARGE), group=other, async_op=True)
        sys.setswitchinterval(60)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            pass
        tutti.torch._C.shutdown(other)
        sys.setswitchinterval(interval)
        other = dist.new_group()
        x = torch.ones(LARGE)
        dist.all_reduce(x, group=other)
        waiting = dist.irecv(torch.zeros(10), me, group=other)
        tutti.torch._C.shutdown(other)
        with raises("has been shut down"):
            waiting.wait()
        with raises("all_reduce of 300000 x Float", "has been shut down"):
            dist.all_reduce(x, group=other)
        tutti.torch._C.shutdown(other)
        dist.all_reduce(x)
        assert x[-1] == size * size
    with raises("initialized"):
        dist.all_reduce(torch.ones(1))
