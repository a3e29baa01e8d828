# SPDX-License-Identifier: BSD-3-Clause
"""Element types, operators, and what counts as a buffer.

A buffer is a NumPy array, or whatever else has the buffer protocol, in one piece and of elements that Tutti has. It is
never copied: what is not contiguous is refused.
"""
from __future__ import annotations

import ctypes
import enum
import sys
from typing import Any, Callable

from . import _library
from ._errors import ArgumentError, ElementTypeError, check
from ._library import lib


class Type(enum.IntEnum):
    """Element types (docs/OPERATORS.md says which operators go with which)."""
    INT8 = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UINT64 = 7
    FLOAT = 8
    DOUBLE = 9
    FLOAT16 = 10
    BFLOAT16 = 11
    COMPLEX_FLOAT = 12
    COMPLEX_DOUBLE = 13
    BOOL = 14
    BYTE = 15
    FLOAT_INT = 16
    DOUBLE_INT = 17
    LONG_INT = 18
    TWO_INT = 19
    SHORT_INT = 20
    OP_ELEMENT = 21

    @property
    def bytes(self) -> int:
        return lib.tutti_type_bytes(self)


class Op(enum.IntEnum):
    """Built-in operators. Operator makes others."""
    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4
    LAND = 5
    LOR = 6
    LXOR = 7
    BAND = 8
    BOR = 9
    BXOR = 10
    MINLOC = 11
    MAXLOC = 12


_BY_KIND = {("i", 1): Type.INT8, ("u", 1): Type.UINT8, ("i", 2): Type.INT16, ("u", 2): Type.UINT16,
            ("i", 4): Type.INT32, ("u", 4): Type.UINT32, ("i", 8): Type.INT64, ("u", 8): Type.UINT64,
            ("f", 2): Type.FLOAT16, ("f", 4): Type.FLOAT, ("f", 8): Type.DOUBLE, ("c", 8): Type.COMPLEX_FLOAT,
            ("c", 16): Type.COMPLEX_DOUBLE, ("b", 1): Type.BOOL}
# Letters of the struct module, and NumPy's for complex numbers.
_KIND_OF_FORMAT = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u"), **dict.fromkeys("efd", "f"),
                   "?": "b", "Zf": "c", "Zd": "c"}
_PAIRS = {"f4": Type.FLOAT_INT, "f8": Type.DOUBLE_INT, "i8": Type.LONG_INT, "i4": Type.TWO_INT, "i2": Type.SHORT_INT}
_NATIVE = "<" if sys.byteorder == "little" else ">"


def value_index(value: Any) -> Any:
    """The NumPy dtype of pairs for Op.MINLOC and Op.MAXLOC, with the fields `value` and `index`: of float32, float64,
    int64, int32 or int16 values. As C lays them out."""
    import numpy
    value = numpy.dtype(value)
    if value.str[1:] not in _PAIRS:
        raise ElementTypeError(f"there are no pairs of {value} and index, but of float32, float64, int64, int32, int16")
    return numpy.dtype([("value", value), ("index", numpy.int32)], align=True)


def type_of(dtype: Any) -> Type:
    """The element type of a NumPy dtype (or what numpy.dtype takes). ElementTypeError if there is none."""
    import numpy
    dtype = numpy.dtype(dtype)
    if dtype.name == "bfloat16":  # of ml_dtypes
        return Type.BFLOAT16
    if dtype.names == ("value", "index"):
        found = _PAIRS.get(dtype["value"].str[1:])
        if found is not None and dtype == value_index(dtype["value"]):
            return found
    found = _BY_KIND.get((dtype.kind, dtype.itemsize)) if dtype.isnative else None
    if found is None or dtype.names is not None:
        raise ElementTypeError(f"elements of {dtype} have no type in Tutti" +
                               ("" if dtype.isnative else ": they are not in this machine's byte order"))
    return found


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _Held:
    """A buffer that its object may not move or resize while this lives."""
    __slots__ = ("view",)

    def __init__(self, view: _PyBuffer):
        self.view = view

    def __del__(self, release: Callable = ctypes.pythonapi.PyBuffer_Release, byref: Callable = ctypes.byref) -> None:
        release(byref(self.view))


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_C_CONTIGUOUS_WITH_FORMAT = 0x0004 | 0x0008 | 0x0010 | 0x0020  # FORMAT, ND, STRIDES, C_CONTIGUOUS


class Buffer:
    """Where the elements of an object are. Keeps the object."""
    __slots__ = ("object", "held", "address", "count", "type")

    def __init__(self, given: Any, what: str, write: bool, operator: Operator | None = None):
        """`operator` says what the elements are where it is one that was made for its own."""
        self.object, self.held = given, None
        opaque = operator is not None and operator.type == Type.OP_ELEMENT
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(given, numpy.ndarray):
            flags = given.flags
            if not flags.c_contiguous:
                raise ArgumentError(f"{what} is not contiguous: give a copy, as of numpy.ascontiguousarray()")
            if write and not flags.writeable:
                raise ArgumentError(f"{what} is read-only, and would be written to")
            self.address = given.__array_interface__["data"][0]
            if opaque:
                self._take_elements_of(operator, given.nbytes, what)
            else:
                self.count, self.type = given.size, _type_of_array.get(given.dtype) or _remember(given.dtype)
            return
        view = _PyBuffer()
        try:
            _get_buffer(given, ctypes.byref(view), _C_CONTIGUOUS_WITH_FORMAT)
        except BufferError as error:
            raise ArgumentError(f"{what} is not contiguous: {error}") from None
        except TypeError:
            raise _no_buffer(given, what) from None
        self.held = _Held(view)
        if write and view.readonly:
            raise ArgumentError(f"{what} is read-only, and would be written to")
        self.address = view.buf
        if opaque:
            self._take_elements_of(operator, view.len, what)
        else:
            self.type = _type_of_format((view.format or b"B").decode(), view.itemsize, what)
            self.count = view.len // view.itemsize

    def _take_elements_of(self, operator: Any, bytes_: int, what: str) -> None:
        self.type = Type.OP_ELEMENT
        self.count, rest = divmod(bytes_, operator.itemsize)
        if rest:
            raise ArgumentError(f"{what} has {bytes_} bytes, no multiple of the operator's {operator.itemsize}")


def _no_buffer(given: Any, what: str) -> ElementTypeError:
    return ElementTypeError(f"{what} is of type {type(given).__name__}, which has no buffer of elements: give a NumPy "
                            f"array, or whatever else has the buffer protocol")


def _type_of_format(format: str, itemsize: int, what: str) -> Type:
    order, letter = (format[0], format[1:]) if format[0] in "@=<>!" else ("@", format)
    if letter == "c":
        return Type.BYTE
    found = _BY_KIND.get((_KIND_OF_FORMAT.get(letter, ""), itemsize)) if order in "@=" + _NATIVE else None
    if found is None:
        raise ElementTypeError(f"{what} has elements of format '{format}', which have no type in Tutti")
    return found


_type_of_array: dict = {}


def _remember(dtype: Any) -> Type:
    found = _type_of_array[dtype] = type_of(dtype)
    return found


def new_like(given: Any, *, times: int | None = None, count: int | None = None) -> Any:
    """A new buffer for results, of zeros: shaped as `given`, or `times` of that, or with `count` elements."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(given, numpy.ndarray):
        shape = given.shape if count is None else (count,)
        return numpy.zeros(shape if times is None else (times, *shape), given.dtype)
    try:
        view = memoryview(given)
    except TypeError:
        raise _no_buffer(given, "the input") from None
    elements = view.nbytes // view.itemsize if count is None else count
    return memoryview(bytearray(elements * (times or 1) * view.itemsize)).cast(view.format if view.format else "B")


class Operator:
    """An operator of the program's own: `combine(a, b)` sets b to a op b, elementwise, where a comes from lower ranks.

    Both are NumPy arrays of `dtype`, which may be of any elements of 1 to 4096 bytes. It has to be associative, and all
    ranks make theirs alike. It is called on pieces of the vector, in whatever thread makes progress, and must not call
    Tutti. What it raises is raised by the call that used it, once that has ended; its results then mean nothing.
    """

    def __init__(self, combine: Callable[[Any, Any], None], dtype: Any, *, commutes: bool = False):
        import numpy
        dtype = numpy.dtype(dtype)
        self.itemsize = dtype.itemsize
        self.type: Type | None = Type.OP_ELEMENT
        self.error: BaseException | None = None

        def call(given: int, given_out: int, count: int, _: Any) -> None:
            try:
                bytes_ = count * dtype.itemsize
                a = numpy.frombuffer((ctypes.c_char * bytes_).from_address(given), dtype)
                b = numpy.frombuffer((ctypes.c_char * bytes_).from_address(given_out), dtype)
                combine(a, b)
            except BaseException as error:  # nothing may be thrown through the library
                self.error = self.error or error

        self._function = _library.OP_FUNCTION(call)
        self._op = ctypes.c_int32(-1)
        check(lib.tutti_op_create(self._function, int(commutes), dtype.itemsize, None, ctypes.byref(self._op)))

    @classmethod
    def premul_sum(cls, factor: Any, dtype: Any) -> Operator:
        """Multiplies this rank's elements by `factor` before they are summed; ranks may have different factors."""
        import numpy
        made = cls.__new__(cls)
        value = numpy.array([factor], numpy.dtype(dtype))
        made.type, made.itemsize, made.error = type_of(dtype), value.itemsize, None
        made._function, made._op = None, ctypes.c_int32(-1)
        check(lib.tutti_op_create_premul_sum(value.ctypes.data, made.type, ctypes.byref(made._op)))
        return made

    def __int__(self) -> int:
        return self._op.value

    def free(self) -> None:
        """Calls under way keep it. OperatorError if it has been freed."""
        check(lib.tutti_op_free(ctypes.byref(self._op)))

    def raise_error(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
