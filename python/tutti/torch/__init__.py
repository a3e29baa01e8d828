# SPDX-License-Identifier: BSD-3-Clause
"""The backend "tutti" of torch.distributed, for tensors on CPUs:

    import tutti.torch
    torch.distributed.init_process_group("tutti")

It is started as any other: by torchrun, tutti-run or mpirun. docs/PYTORCH.md is the manual.
"""
from __future__ import annotations

import atexit
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

try:
    from . import _C
except ImportError as error:
    raise ImportError(f"the process group was not built for this Python and PyTorch {torch.__version__}: {error}. "
                      f"Install libtorch-dev, python3-torch and pybind11-dev, and build Tutti again") from error

#: How long the end of the interpreter waits for other ranks, where groups have not been destroyed.
LEAVE = timedelta(seconds=5)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return _C.create(store, rank, size, timeout)


def _native(group: Any) -> Any:
    """The process group of C++: since torch 2.0 what torch calls a group has one for each kind of device."""
    if group is None:
        group = dist.distributed_c10d._get_default_group()
    return group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group


def failed_ranks(group: Any = None) -> list[int]:
    """Ranks of the group (None: the default one) that are known to be dead here, as the group numbers them."""
    return _C.failed_ranks(_native(group))


_options = {"devices": ["cpu"]} if hasattr(dist.distributed_c10d.ProcessGroup, "_get_backend") else {}
dist.Backend.register_backend("tutti", _create, **_options)
atexit.register(_C.shutdown_all, LEAVE)
