# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the library as exceptions, one class a code, with the fields of the C struct tutti_error."""
from __future__ import annotations

import builtins
import ctypes

from . import _library
from ._library import lib


class TuttiError(Exception):
    """What a call of Tutti ended with. str() says in one line what is wrong and what to do.

    code       the number of the error (TUTTI_ERROR_... in tutti.h)
    name       "peer", "mismatch", ...
    peer       the rank concerned, or -1
    sys_errno  errno of the system or verbs call, or 0
    wc_status  the verbs completion status, or -1
    """

    code = -1

    def __init__(self, text: str, code: int | None = None, peer: int = -1, sys_errno: int = 0, wc_status: int = -1):
        super().__init__(text)
        if code is not None:
            self.code = code
        self.peer, self.sys_errno, self.wc_status = peer, sys_errno, wc_status

    @property
    def name(self) -> str:
        return lib.tutti_result_name(self.code).decode()

    @property
    def text(self) -> str:
        return str(self)


class ArgumentError(TuttiError, ValueError):
    """An argument is out of its range, or buffers do not fit each other."""
    code = 1


class ElementTypeError(TuttiError, builtins.TypeError):
    """The elements of a buffer are of no type that Tutti has."""
    code = 2


class OperatorError(TuttiError, ValueError):
    """The operator is unknown, or not defined for the type."""
    code = 3


class CommError(TuttiError):
    """The communicator has been freed."""
    code = 4


class StateError(TuttiError):
    """The call is not allowed now."""
    code = 5


class ConfigError(TuttiError):
    """A setting is wrong, or differs between ranks."""
    code = 6


class VersionError(TuttiError):
    """Ranks run different versions of the library."""
    code = 7


class BootstrapError(TuttiError):
    """Ranks cannot meet."""
    code = 8


class TimeoutError(TuttiError, builtins.TimeoutError):
    """A deadline passed; the text names the ranks that are missing."""
    code = 9


class DeviceError(TuttiError):
    """No usable device, or a verbs call failed."""
    code = 10


class LimitError(TuttiError):
    """A limit of the device or the system is too low; the text names it, its value and the fix."""
    code = 11


class MemoryError(TuttiError, builtins.MemoryError):
    """Out of memory."""
    code = 12


class PeerError(TuttiError):
    """A rank died or left: `peer`. The others can go on with Comm.shrink()."""
    code = 13


class LinkError(TuttiError):
    """A connection broke and could not be made again."""
    code = 14


class MismatchError(TuttiError):
    """Ranks made different calls."""
    code = 15


class AbortedError(TuttiError):
    """Comm.abort() was called in this process."""
    code = 16


class UnsupportedError(TuttiError):
    """Valid, but not offered by this build or device."""
    code = 17


class SystemError(TuttiError):
    """A system call failed; `sys_errno` tells why."""
    code = 18


class TruncatedError(TuttiError):
    """A message was longer than the receive's buffer; what fits into it was written."""
    code = 19


_BY_CODE = {each.code: each for each in TuttiError.__subclasses__()}


def last_error(code: int) -> TuttiError:
    """This thread's last error as an exception; `code` is what the call returned."""
    error = _library.Error()
    error.size = ctypes.sizeof(error)
    lib.tutti_last_error(ctypes.byref(error))
    if error.result != code:  # another call came between: the code alone is known
        error.text, error.peer, error.sys_errno, error.wc_status = lib.tutti_result_name(code), -1, 0, -1
    return _BY_CODE.get(code, TuttiError)(error.text.decode(errors="replace"), code, error.peer, error.sys_errno,
                                          error.wc_status)


def check(code: int) -> None:
    """Raises what a call returned, unless that is success."""
    if code != 0:
        raise last_error(code)
