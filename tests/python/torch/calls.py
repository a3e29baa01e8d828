# SPDX-License-Identifier: BSD-3-Clause
"""Every call and every type: what ranks.py runs by these names."""
import torch
import torch.distributed as dist
import tutti.torch
from checks import equal, group, raises, total, values

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.complex64, torch.complex128, torch.bool]


def collectives():
    """Every call and type, sync and async, against sums made here."""
    with group() as (me, size):
        for dtype in TYPES:
            for asynchronously in (False, True):
                one_of_each(me, size, dtype, asynchronously)
                of_tensors(me, size, dtype, asynchronously)
                messages(me, size, dtype, asynchronously)
        truths(me, size)
        operators(me, size)
        shapes(me, size)
        shapes_of_lists(me, size)
        in_place(me, size)


def caller(asynchronously):
    """Makes a call, and waits for it where it is asynchronous."""
    def call(function, *arguments, **options):
        if not asynchronously:
            assert function(*arguments, **options) is None
            return
        work = function(*arguments, **options, async_op=True)
        work.wait()
        assert work.done() if isinstance(work, torch._C.Future) else work.is_completed()
    return call


def one_of_each(me, size, dtype, asynchronously):
    call = caller(asynchronously)
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


def of_tensors(me, size, dtype, asynchronously):
    """Into one tensor and out of one, and several tensors at once."""
    call = caller(asynchronously)
    what = f"{dtype} {'async' if asynchronously else 'sync'}"
    all_ = [values(r, 3, dtype) for r in range(size)]
    x = torch.zeros(size * 3, dtype=dtype)
    call(dist.all_gather_into_tensor, x, all_[me].clone())
    equal(x, torch.cat(all_), f"all_gather_into_tensor {what}")
    wholes = [values(r, size * 3, dtype) for r in range(size)]
    x = torch.zeros(3, dtype=dtype)
    call(dist.reduce_scatter_tensor, x, wholes[me].clone())
    equal(x, total(wholes, dtype)[me * 3:me * 3 + 3], f"reduce_scatter_tensor {what}")
    some = [[values(r, 3, dtype), values(r + 1, 4, dtype).view(2, 2)] for r in range(size)]
    mine = [each.clone() for each in some[me]]
    call(dist.all_reduce_coalesced, mine)
    for i in range(2):
        equal(mine[i], total([each[i] for each in some], dtype), f"all_reduce_coalesced {what}")
    into = [[torch.zeros_like(each) for each in of_rank] for of_rank in some]
    call(dist.all_gather_coalesced, into, some[me])
    for got, wanted in zip(into, some):
        for i in range(2):
            equal(got[i], wanted[i], f"all_gather_coalesced {what}")
    # Those that torch has since 2.1. The second output is not contiguous.
    pg = dist.distributed_c10d._get_default_group()
    into = [torch.zeros(size * 3, dtype=dtype), torch.zeros(2, size * 2, dtype=dtype).t()]
    tutti.torch._C.allgather_into_tensor_coalesced(pg, into, some[me]).wait()
    for i in range(2):
        equal(into[i], torch.cat([each[i] for each in some]), f"all_gather_into_tensor_coalesced {what}")
    small = [torch.zeros(3, dtype=dtype), torch.zeros(2, 2, dtype=dtype).t()]
    large = [[values(r, size * 3, dtype), values(r + 2, size * 4, dtype).view(-1, 2)] for r in range(size)]
    tutti.torch._C.reduce_scatter_tensor_coalesced(pg, small, large[me]).wait()
    for i in range(2):
        wanted = total([each[i] for each in large], dtype).chunk(size)[me]
        equal(small[i], wanted, f"reduce_scatter_tensor_coalesced {what}")


def messages(me, size, dtype, asynchronously):
    """To the right, and from the left; sends of the first ranks may have to wait for their receives."""
    all_ = [values(r, 5, dtype) for r in range(size)]
    what = f"{dtype} {'async' if asynchronously else 'sync'}"
    right, left = (me + 1) % size, (me - 1) % size
    x, y = torch.zeros(5, dtype=dtype), torch.zeros(5, dtype=dtype)
    if asynchronously:
        works = [dist.isend(all_[me].clone(), right, tag=3), dist.irecv(x, left, tag=3),
                 dist.isend(all_[me].clone(), right, tag=4), dist.irecv(y, tag=4)]
        for work in works:
            work.wait()
            assert work.is_completed()
        assert works[3].source_rank() == left
    elif me == 0:
        dist.send(all_[me], right, tag=3)
        dist.recv(x, left, tag=3)
        dist.send(all_[me], right, tag=4)
        assert dist.recv(y, tag=4) == left
    else:
        assert dist.recv(x, left, tag=3) == left
        dist.send(all_[me], right, tag=3)
        assert dist.recv(y, tag=4) == left
        dist.send(all_[me], right, tag=4)
    equal(x, all_[left], f"message {what}")
    equal(y, all_[left], f"message from anybody {what}")


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


def shapes_of_lists(me, size):
    """What is not contiguous, in every call that is not in shapes."""
    def bent(rows, start=0.0):  # rows x 3, by columns
        return (torch.arange(rows * 3, dtype=torch.float32).view(rows, 3) + start).t().contiguous().t()
    flat = bent(2).contiguous()
    wholes = [bent(2 * size, r) for r in range(size)]
    mine = [part.contiguous() for part in sum(wholes).chunk(size)][me]
    assert not bent(2).is_contiguous()
    x = bent(2, me)
    dist.reduce(x, 0)
    if me == 0:
        equal(x, flat * size + sum(range(size)), "reduce")
    into = [bent(2) for _ in range(size)] if me == 0 else None
    dist.gather(bent(2, me), into, dst=0)
    for r in range(size if me == 0 else 0):
        equal(into[r], flat + r, "gather")
    x = bent(2)
    dist.scatter(x, [bent(2, r) for r in range(size)] if me == 0 else None, src=0)
    equal(x, flat + me, "scatter")
    x = bent(2)
    dist.reduce_scatter(x, list(wholes[me].chunk(size)))
    equal(x, mine, "reduce_scatter")
    x = bent(2)
    dist.reduce_scatter_tensor(x, wholes[me])
    equal(x, mine, "reduce_scatter_tensor")
    x = bent(2 * size)
    dist.all_gather_into_tensor(x, bent(2, me))
    equal(x, torch.cat([flat + r for r in range(size)]), "all_gather_into_tensor")
    wanted = torch.cat([wholes[r].chunk(size)[me] for r in range(size)])
    x = bent(2 * size)
    dist.all_to_all_single(x, wholes[me])
    equal(x, wanted, "all_to_all_single")
    into = [bent(2) for _ in range(size)]
    dist.all_to_all(into, list(wholes[me].chunk(size)))
    equal(torch.cat(into), wanted, "all_to_all")
    some = [bent(2, me), bent(3, me)]
    dist.all_reduce_coalesced(some)
    equal(some[0], flat * size + sum(range(size)), "all_reduce_coalesced")
    into = [[bent(2), bent(3)] for _ in range(size)]
    dist.all_gather_coalesced(into, [bent(2, me), bent(3, me)])
    for r in range(size):
        equal(into[r][0], flat + r, "all_gather_coalesced")


def in_place(me, size):
    """A part of the tensor is the other one, as FullyShardedDataParallel has it."""
    x = torch.zeros(size * 3)
    x[me * 3:me * 3 + 3] = me + 10
    dist.all_gather_into_tensor(x, x[me * 3:me * 3 + 3])
    equal(x, torch.arange(size).repeat_interleave(3) + 10, "all_gather_into_tensor in place")
    whole = torch.arange(size * 3).float()
    dist.reduce_scatter_tensor(whole[me * 3:me * 3 + 3], whole)
    equal(whole[me * 3:me * 3 + 3], torch.arange(me * 3, me * 3 + 3) * size, "reduce_scatter_tensor in place")
