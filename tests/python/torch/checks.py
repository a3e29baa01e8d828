# SPDX-License-Identifier: BSD-3-Clause
"""What the functions that ranks run share."""
import contextlib

import torch
import torch.distributed as dist
import tutti.torch  # noqa: F401: makes the backend known

torch.set_num_threads(1)


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
    """Their sum; of truths, whether any is true."""
    if dtype == torch.bool:
        return torch.stack(all_).any(0)
    return torch.stack([each.to(torch.complex128 if dtype.is_complex else torch.float64) for each in all_]).sum(0)
