# SPDX-License-Identifier: BSD-3-Clause
"""What each rank measures: ranks.py RESULT.json MAX_BYTES SECONDS. Both backends in one process, in turns."""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
import tutti.torch  # noqa: F401: makes the backend known
from torch.nn.parallel import DistributedDataParallel

ROUNDS = 5  # turns of each backend
SIZES = [8, 64, 512, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]  # bytes


def slowest(seconds):
    """The value of the slowest rank."""
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.item()


def measure(call, seconds):
    """Times of single calls, for about so long; ranks make equally many, and start each together."""
    time.sleep(0.05)  # who wakes is put on a core that is idle; two ranks that spin on one core stay there
    call()
    dist.barrier()
    began = time.perf_counter()
    call()
    count = max(3, min(2000, int(seconds / slowest(time.perf_counter() - began))))
    times = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times


def in_turns(calls, seconds):
    """The median of each call by name, of the slowest rank, in microseconds, for each round."""
    medians = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            medians[name].append(slowest(statistics.median(measure(call, seconds / ROUNDS))) * 1e6)
    return medians


def allreduce(groups, bytes_, seconds):
    x = torch.ones(bytes_ // 4)
    return in_turns({name: lambda group=group: dist.all_reduce(x, group=group) for name, group in groups.items()},
                    seconds)


def step(groups, width, seconds):
    """One training step of a network of three layers under DistributedDataParallel."""
    calls = {}
    for name, group in groups.items():
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(),
            torch.nn.Linear(width, 1)), process_group=group, bucket_cap_mb=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        x = torch.randn(16, width)

        def call(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
        calls[name] = call
    parameters = sum(p.numel() for p in model.parameters())
    return {"parameters": parameters, **in_turns(calls, seconds)}


def main():
    out, most, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("tutti")
    groups = {"tutti": None, "gloo": dist.new_group(backend="gloo")}
    sizes = [size for size in SIZES if size <= most]
    results = {"ranks": dist.get_world_size(), "torch": torch.__version__, "tutti": tutti.__version__,
               "allreduce": [{"bytes": size, **allreduce(groups, size, seconds)} for size in sizes],
               "ddp": [step(groups, width, seconds) for width in (128, 512)]}
    if dist.get_rank() == 0:
        with open(out, "w") as file:
            json.dump(results, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
