# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small network on data made on the spot, on any number of ranks:

    torchrun --nproc_per_node 2 examples/ddp.py        (or mpirun -n 2 python3, or tutti-run -n 2 python3)

The import of tutti.torch and the backend's name are all that differs from a program for Gloo (--backend gloo).
"""
import argparse
import time

import torch
import torch.distributed as dist
import tutti.torch  # noqa: F401: makes the backend known
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser(description="Distributed data parallel training of a small network.")
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=256)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(32, arguments.width), torch.nn.ReLU(),
        torch.nn.Linear(arguments.width, arguments.width), torch.nn.ReLU(),
        torch.nn.Linear(arguments.width, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mine = torch.Generator().manual_seed(dist.get_rank())  # each rank has data of its own
    began = time.perf_counter()
    for _ in range(arguments.steps):
        x = torch.randn(64, 32, generator=mine)
        loss = ((model(x) - x[:, :4].mean(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    took = time.perf_counter() - began
    loss = loss.detach()
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, {arguments.backend}: loss {loss.item() / dist.get_world_size():.5f} after "
              f"{arguments.steps} steps of {took / arguments.steps * 1e3:.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
