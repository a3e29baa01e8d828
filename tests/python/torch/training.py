# SPDX-License-Identifier: BSD-3-Clause
"""Training on data made on the spot: what ranks.py runs by these names."""
import os
import signal
import time

import torch
import torch.distributed as dist
import tutti.torch
from checks import raises
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS = 25


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 1))


def train(model, optimizer, rank, steps=STEPS):
    """The losses of this rank's share of the data, step by step."""
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 16, generator=generator)
        loss = ((model(x) - x[:, :4].mean(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(process_group=None, rank=None, **options):
    # Small buckets: several are under way while the gradients of others are computed.
    model = DistributedDataParallel(network(), process_group=process_group, bucket_cap_mb=0.005, **options)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), dist.get_rank() if rank is None else rank)


def data_parallel():
    """DDP: the losses of Gloo within float error, the same bits in every repetition, and falling; with a hook, too."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    dist.init_process_group("tutti")
    gloo = dist.new_group(backend="gloo")
    of_gloo, first, second = ddp(gloo), ddp(), ddp()
    assert first == second, "two repetitions differ"
    assert torch.allclose(torch.tensor(first), torch.tensor(of_gloo), rtol=1e-5), (first, of_gloo)
    assert first[-1] < first[0] / 2, first
    assert torch.allclose(torch.tensor(ddp(gradient_as_bucket_view=True)), torch.tensor(first), rtol=1e-5)
    for hook, state in [(default_hooks.fp16_compress_hook, None),
                        (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2))]:
        model = DistributedDataParallel(network())
        model.register_comm_hook(state, hook)
        losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), dist.get_rank())
        assert losses[-1] < losses[0] / 2, (hook, losses)
    dist.destroy_process_group()


def one_process():
    """Two ranks with the same data compute what one process does, bit by bit: a sum of two equal numbers is exact."""
    dist.init_process_group("tutti")
    model = network()
    alone = train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 7)
    assert ddp(rank=7) == alone
    dist.destroy_process_group()


def sharded():
    """ZeroRedundancyOptimizer, against the unsharded. FullyShardedDataParallel of 1.13 refuses by itself."""
    dist.init_process_group("tutti")
    rank = dist.get_rank()
    plain = DistributedDataParallel(network())
    wanted = train(plain, torch.optim.Adam(plain.parameters(), lr=0.01), rank)
    zero = DistributedDataParallel(network())
    got = train(zero, ZeroRedundancyOptimizer(zero.parameters(), torch.optim.Adam, lr=0.01), rank)
    assert torch.allclose(torch.tensor(got), torch.tensor(wanted), rtol=1e-4), (got, wanted)
    if torch.__version__.startswith("1.13"):
        with raises(kind=(AssertionError, RuntimeError, ValueError)):
            from torch.distributed.fsdp import FullyShardedDataParallel  # Python 3.11: "mutable default"
            FullyShardedDataParallel(network())  # "CUDA"
    dist.destroy_process_group()


def death():
    """A rank is killed in training: the others raise at once and name it, shrink, and train on."""
    dist.init_process_group("tutti")
    rank = dist.get_rank()
    model = DistributedDataParallel(network(), bucket_cap_mb=0.005)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer, rank, 3)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        train(model, optimizer, rank, 100)
        raise AssertionError("nobody noticed")
    except RuntimeError as error:
        assert "rank 1" in str(error), error
    assert time.monotonic() - began < 25, "not before silence is taken for death, which is after 30 s"
    assert tutti.torch.failed_ranks() == [1]
    living = tutti.torch.shrink()
    assert dist.get_world_size(living) == dist.get_world_size() - 1
    x = torch.full((3,), float(rank))
    dist.broadcast(x, dist.get_world_size() - 1, group=living)  # ranks are still the world's
    assert x[0] == dist.get_world_size() - 1
    losses = ddp(living)
    assert losses[-1] < losses[0] / 2, losses
    print("trained on")
