# SPDX-License-Identifier: BSD-3-Clause
"""The backend "tutti" of torch.distributed, for tensors on CPUs:

    import tutti.torch
    torch.distributed.init_process_group("tutti")

It is started as any other: by torchrun, tutti-run or mpirun. docs/PYTORCH.md is the manual.
"""
from __future__ import annotations

import atexit
import os
import zlib
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


def _take_ranks_of_mpirun() -> None:
    """torch reads ranks from torchrun's variables; mpirun has others. Within one host they say where to meet, too."""
    mine = os.environ
    if "RANK" in mine or "OMPI_COMM_WORLD_RANK" not in mine:
        return
    mine["RANK"], mine["WORLD_SIZE"] = mine["OMPI_COMM_WORLD_RANK"], mine["OMPI_COMM_WORLD_SIZE"]
    mine.setdefault("LOCAL_RANK", mine["OMPI_COMM_WORLD_LOCAL_RANK"])
    if mine["OMPI_COMM_WORLD_LOCAL_SIZE"] == mine["WORLD_SIZE"]:
        mine.setdefault("MASTER_ADDR", "127.0.0.1")
        job = mine.get("PMIX_NAMESPACE", mine.get("OMPI_MCA_ess_base_jobid", ""))
        mine.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 12000))  # below those the system gives


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


def shrink(group: Any = None) -> Any:
    """After the death of ranks of the group (None: the default one): the group of those that live, who all call it.

    It is one of torch.distributed's from then on, as those of new_group: give it as `group`, or as `process_group` to
    DistributedDataParallel. Global ranks stay as they are. Of `group` nothing can be used any more. RuntimeError if
    another rank dies meanwhile: shrink the group once more.
    """
    c10d = dist.distributed_c10d
    if not hasattr(c10d, "_pg_map"):
        raise NotImplementedError(f"shrink is for PyTorch 1.13: PyTorch {torch.__version__} keeps groups in another way. "
                                  "Destroy the process group and initialize it again among those who live")
    old = c10d._get_default_group() if group is None else group
    to_global = {r: r for r in range(old.size())} if group is None or old is dist.group.WORLD else \
        {mine: of_all for of_all, mine in c10d._pg_group_ranks[old].items()}
    made = _C.shrink(_native(group))
    # Ranks keep their order, so those that live are those that are not known to be dead; the new group has told all.
    gathered = [torch.zeros(1, dtype=torch.int64) for _ in range(made.size())]
    made.allgather([gathered], [torch.tensor([to_global[old.rank()]])]).wait()
    name = f"{c10d._pg_names[old]}/living"
    while name in c10d._pg_names.values():
        name += "/living"
    c10d._pg_map[made] = ("tutti", c10d._pg_map[old][1])
    c10d._pg_names[made] = name
    c10d._pg_group_ranks[made] = {int(of_all): mine for mine, of_all in enumerate(gathered)}
    return made


_take_ranks_of_mpirun()
_options = {"devices": ["cpu"]} if hasattr(dist.distributed_c10d.ProcessGroup, "_get_backend") else {}
dist.Backend.register_backend("tutti", _create, **_options)
atexit.register(_C.shutdown_all, LEAVE)
