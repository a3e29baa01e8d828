# SPDX-License-Identifier: BSD-3-Clause
"""The C library: where it is, whether it is the one this package belongs to, and its structs and functions.

Everything the package does goes through the functions here; ctypes gives up the interpreter's lock around each.
"""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_int32, c_size_t, c_uint64, c_void_p

from . import _place

IN_PLACE = c_void_p(-1).value


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("timeout_ms", c_int32), ("device", c_char_p),
                ("operation_timeout_ms", c_int32), ("while_waiting", c_void_p), ("waiting_user", c_void_p)]


ALLGATHER = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_size_t)
OP_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_void_p)


class Bootstrap(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("rank", c_int32), ("ranks", c_int32), ("user", c_void_p),
                ("allgather", ALLGATHER)]


class Error(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("result", c_int32), ("peer", c_int32), ("sys_errno", c_int32),
                ("wc_status", c_int32), ("text", c_char * 512)]


class Call(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("collective", c_int32), ("type", c_int32), ("op", c_int32), ("root", c_int32),
                ("in_", c_void_p), ("out", c_void_p), ("count", c_size_t), ("algorithm", c_char_p),
                ("in_counts", POINTER(c_size_t)), ("in_displs", POINTER(c_size_t)),
                ("out_counts", POINTER(c_size_t)), ("out_displs", POINTER(c_size_t))]


class Status(ctypes.Structure):
    _fields_ = [("source", c_int32), ("tag", c_int32), ("result", c_int32), ("reserved", c_int32),
                ("bytes", c_uint64)]


_comm, _request = c_void_p, c_void_p
_transfer = [c_void_p, c_size_t, c_int32, c_int32, c_int32, _comm]

# What each function takes; all of them return a result code, but for those of RETURNS.
FUNCTIONS = {
    "tutti_init": [POINTER(Bootstrap), POINTER(Options), POINTER(_comm)],
    "tutti_comm_free": [POINTER(_comm)],
    "tutti_abort": [_comm],
    "tutti_comm_rank": [_comm, POINTER(c_int32)],
    "tutti_comm_size": [_comm, POINTER(c_int32)],
    "tutti_comm_split": [_comm, c_int32, c_int32, POINTER(_comm)],
    "tutti_comm_dup": [_comm, POINTER(_comm)],
    "tutti_comm_create": [_comm, c_size_t, POINTER(c_int32), POINTER(_comm)],
    "tutti_comm_shrink": [_comm, POINTER(_comm)],
    "tutti_comm_failed": [_comm, POINTER(c_size_t), POINTER(c_int32)],
    "tutti_comm_set_algorithms": [_comm, c_char_p],
    "tutti_comm_translate": [_comm, c_size_t, POINTER(c_int32), _comm, POINTER(c_int32)],
    "tutti_run_call": [POINTER(Call), _comm],
    "tutti_start_call": [POINTER(Call), _comm, POINTER(_request)],
    "tutti_call_init": [POINTER(Call), _comm, POINTER(_request)],
    "tutti_start": [_request],
    "tutti_wait": [POINTER(_request), POINTER(Status)],
    "tutti_test": [POINTER(_request), POINTER(c_int32), POINTER(Status)],
    "tutti_request_free": [POINTER(_request)],
    "tutti_isend": _transfer + [POINTER(_request)],
    "tutti_issend": _transfer + [POINTER(_request)],
    "tutti_irecv": _transfer + [POINTER(_request)],
    "tutti_probe": [c_int32, c_int32, _comm, POINTER(Status)],
    "tutti_iprobe": [c_int32, c_int32, _comm, POINTER(c_int32), POINTER(Status)],
    "tutti_op_create": [OP_FUNCTION, c_int32, c_size_t, c_void_p, POINTER(c_int32)],
    "tutti_op_create_premul_sum": [c_void_p, c_int32, POINTER(c_int32)],
    "tutti_op_free": [POINTER(c_int32)],
    "tutti_alloc": [_comm, c_size_t, POINTER(c_void_p)],
    "tutti_free": [_comm, c_void_p],
    "tutti_query": [_comm, c_char_p, c_char_p, POINTER(c_size_t)],
    "tutti_describe": [c_char_p, c_char_p, POINTER(c_size_t)],
    "tutti_last_error": [POINTER(Error)],
    "tutti_result_name": [c_int32],
    "tutti_type_bytes": [c_int32],
    "tutti_version": [],
}
RETURNS = {"tutti_result_name": c_char_p, "tutti_type_bytes": c_size_t, "tutti_version": c_char_p}


def find() -> str:
    """The path of the library that was built or installed together with this package, else a name for the loader."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.normpath(os.path.join(here, _place.LIBRARY))
    return beside if os.path.exists(beside) else os.path.basename(_place.LIBRARY)


def load(path: str) -> ctypes.CDLL:
    """Loads the library at `path`. ImportError if it is not there, or not of this package's version."""
    try:
        library = ctypes.CDLL(path)
        library.tutti_version.restype = c_char_p
        version = library.tutti_version().decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f"the package tutti {_place.VERSION} in {os.path.dirname(os.path.abspath(__file__))} does not "
                          f"find its library: {error}. It is installed by `cmake --install`, or is part of the wheel; "
                          f"a library elsewhere is found through LD_LIBRARY_PATH") from error
    # Before 1.0 the interface may change with the second number, as the library's own name does.
    if version.split(".")[:2] != _place.VERSION.split(".")[:2]:
        raise ImportError(f"the package tutti in {os.path.dirname(os.path.abspath(__file__))} is version "
                          f"{_place.VERSION}, the library {path} is version {version}: install both from one build")
    for name, takes in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = takes
        function.restype = RETURNS.get(name, c_int32)
    return library


PATH = find()
lib = load(PATH)
VERSION = lib.tutti_version().decode()
