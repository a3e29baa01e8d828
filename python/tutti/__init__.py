# SPDX-License-Identifier: BSD-3-Clause
"""Tutti: MPI-style collective communication over RDMA verbs.

    import numpy, tutti
    with tutti.init() as world:                    # ranks meet as torchrun's or tutti-run's environment says
        total = world.allreduce(numpy.ones(4))     # blocks, gives a new array
        sum = world.start.allreduce(total)         # started; compute meanwhile
        total = sum.wait()                         # or: await sum

The package calls the C library, which is the only thing that computes and communicates; docs/PYTHON.md is its manual.
"""
from . import _library
from ._collectives import IN_PLACE, Collectives
from ._comm import ANY_SOURCE, ANY_TAG, NO_RANK, UNDEFINED, Comm, describe, from_mpi4py, init
from ._errors import (AbortedError, ArgumentError, BootstrapError, CommError, ConfigError, DeviceError, ElementTypeError,
                      LimitError, LinkError, MemoryError, MismatchError, OperatorError, PeerError, StateError,
                      SystemError, TimeoutError, TruncatedError, TuttiError, UnsupportedError, VersionError)
from ._request import Persistent, Request, Status, wait_all, wait_any
from ._types import Op, Operator, Type, type_of, value_index

#: The version of the library in use.
__version__ = _library.VERSION

# They are of this package, wherever it keeps them.
for _each in list(globals().values()):
    if isinstance(_each, type) and _each.__module__.startswith(__name__ + "."):
        _each.__module__ = __name__

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "AbortedError", "ArgumentError", "BootstrapError", "Collectives", "Comm", "CommError",
    "ConfigError", "DeviceError", "ElementTypeError", "IN_PLACE", "LimitError", "LinkError", "MemoryError",
    "MismatchError", "NO_RANK", "Op", "Operator", "OperatorError", "PeerError", "Persistent", "Request", "StateError",
    "Status", "SystemError", "TimeoutError", "TruncatedError", "TuttiError", "Type", "UNDEFINED", "UnsupportedError",
    "VersionError", "describe", "from_mpi4py", "init", "type_of", "value_index", "wait_all", "wait_any",
]
