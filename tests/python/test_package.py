# SPDX-License-Identifier: BSD-3-Clause
"""One rank: buffers, types, errors, requests, and how the package finds its library."""
import array
import asyncio
import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import typing

import numpy as np
import pytest
import tutti
from tutti import Op, Type, _library, _place


@pytest.fixture(scope="module")
def world():
    with tutti.init() as made:
        yield made


@pytest.mark.parametrize("dtype, wanted", [
    ("i1", Type.INT8), ("u1", Type.UINT8), ("i2", Type.INT16), ("u2", Type.UINT16), ("i4", Type.INT32),
    ("u4", Type.UINT32), ("i8", Type.INT64), ("u8", Type.UINT64), ("f2", Type.FLOAT16), ("f4", Type.FLOAT),
    ("f8", Type.DOUBLE), ("c8", Type.COMPLEX_FLOAT), ("c16", Type.COMPLEX_DOUBLE), ("?", Type.BOOL)])
def test_types_are_those_of_numpy(world, dtype, wanted):
    assert tutti.type_of(dtype) == wanted
    assert wanted.bytes == np.dtype(dtype).itemsize
    some = np.ones(3, dtype)
    assert np.array_equal(world.allgather(some)[0], some)


@pytest.mark.parametrize("value, wanted", [("f4", Type.FLOAT_INT), ("f8", Type.DOUBLE_INT), ("i8", Type.LONG_INT),
                                           ("i4", Type.TWO_INT), ("i2", Type.SHORT_INT)])
def test_pairs_are_as_c_lays_them_out(value, wanted):
    assert tutti.type_of(tutti.value_index(value)) == wanted
    assert tutti.value_index(value).itemsize == wanted.bytes


def test_bfloat16_is_known_by_its_name():
    class Fake:  # as ml_dtypes has it, which may not be there
        name, names, kind, itemsize, isnative = "bfloat16", None, "V", 2, True
    real = np.dtype
    try:
        np.dtype = lambda given: given if isinstance(given, Fake) else real(given)
        assert tutti.type_of(Fake()) == Type.BFLOAT16
    finally:
        np.dtype = real


@pytest.mark.parametrize("dtype", ["U3", "M8[s]", ">f4" if sys.byteorder == "little" else "<f4", "O",
                                   [("value", "f4"), ("other", "i4")]])
def test_other_types_are_refused(world, dtype):
    with pytest.raises(tutti.ElementTypeError, match="type"):
        world.allgather(np.zeros(2, dtype))


def test_whatever_has_the_buffer_protocol_is_a_buffer(world):
    assert bytes(world.allgather(b"abc")) == b"abc"
    numbers = array.array("d", [1, 2])
    assert world.allreduce(numbers, array.array("d", [0, 0])).tolist() == [1, 2]
    assert world.allreduce(numbers).tolist() == [1, 2]
    words = (ctypes.c_int32 * 2)(5, 6)
    world.broadcast(words)
    assert list(world.allreduce(memoryview(words).cast("B").cast("i"))) == [5, 6]


def test_buffers_are_refused_with_a_reason(world):
    with pytest.raises(tutti.ArgumentError, match="not contiguous.*ascontiguousarray"):
        world.allreduce(np.zeros((4, 4))[:, 1])
    with pytest.raises(tutti.ArgumentError, match="not contiguous"):
        world.allreduce(memoryview(b"abcd")[::2])
    with pytest.raises(tutti.ArgumentError, match="read-only"):
        world.allreduce(np.ones(3), memoryview(bytes(24)).cast("d"))
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(tutti.ArgumentError, match="read-only"):
        world.allreduce(np.ones(3), frozen)
    with pytest.raises(tutti.ElementTypeError, match="list.*buffer protocol"):
        world.allreduce([1, 2])
    with pytest.raises(tutti.ElementTypeError, match="DOUBLE.*FLOAT"):
        world.allreduce(np.ones(3), np.ones(3, np.float32))
    with pytest.raises(tutti.ArgumentError, match="3 and 2"):
        world.allreduce(np.ones(3), np.ones(2))
    with pytest.raises(tutti.ArgumentError, match="2 entries, for 1 ranks"):
        world.allgatherv(np.ones(3), [3, 4])
    with pytest.raises(tutti.ArgumentError, match="need 3"):
        world.allgatherv(np.ones(3), [3], np.ones(2))
    with pytest.raises(tutti.ArgumentError, match="needs counts"):
        world.scatterv(np.ones(3))


def test_shapes_are_kept(world):
    assert world.allreduce(np.ones((2, 3))).shape == (2, 3)
    assert world.allgather(np.ones((2, 3))).shape == (1, 2, 3)


def test_errors_carry_the_fields_of_the_library(world):
    with pytest.raises(tutti.TuttiError) as caught:
        world.broadcast(np.ones(1), root=5)
    error = caught.value
    assert isinstance(error, tutti.ArgumentError) and isinstance(error, ValueError)
    assert (error.code, error.name, error.peer, error.sys_errno, error.wc_status) == (1, "argument", -1, 0, -1)
    assert "root" in error.text and error.text == str(error)
    with pytest.raises(tutti.OperatorError):
        world.allreduce(np.ones(1), op=Op.BAND)
    with pytest.raises(tutti.ArgumentError, match="-3"):
        tutti.init(operation_timeout=-0.003)


def test_requests_are_waited_for_tested_and_awaited(world):
    request = world.start.allreduce(np.array([1, 2]))
    assert request.wait().tolist() == [1, 2] and request.wait().tolist() == [1, 2] and request.done()
    request = world.start.barrier()
    while not request.done():
        pass

    async def main():
        return await world.start.allreduce(np.array([3]))
    assert asyncio.run(main()).tolist() == [3]
    with pytest.raises(tutti.StateError):
        tutti.wait_any([])


def test_a_request_that_nobody_keeps_keeps_its_buffer(world):
    world.start.recv(np.zeros(1000), 0, tag=77)
    gc.collect()
    assert len(world._world.active) == 1
    world.send(np.ones(1000), 0, tag=77)
    next(iter(world._world.active)).wait()
    assert not world._world.active


def test_persistent_requests(world):
    data, out = np.array([1.0]), np.array([0.0])
    call = world.persistent.allreduce(data, out)
    for turn in range(3):
        data[0] = turn
        assert call.start().wait()[0] == turn
    call.start()
    with pytest.raises(tutti.StateError):
        call.free()
    call.wait()
    call.free()


def test_a_world_with_requests_under_way_is_not_freed():
    other = tutti.init()
    other.start.recv(np.zeros(1), 0)
    with pytest.raises(tutti.StateError, match="1 operations are under way"):
        other.free()
    other.send(np.zeros(1), 0)
    next(iter(other._world.active)).wait()
    other.free()
    with pytest.raises(tutti.CommError):
        other.barrier()
    with pytest.raises(tutti.CommError):
        other.query("links")


def test_ranks_meet_through_any_allgather():
    calls = []

    def alone(given):
        calls.append(len(given))
        return [given]
    with tutti.init(rank=0, size=1, allgather=alone) as one:
        assert one.size == 1 and calls
    with pytest.raises(ZeroDivisionError):
        tutti.init(rank=0, size=1, allgather=lambda given: 1 / 0)
    with pytest.raises(tutti.ArgumentError, match="allgather gave"):
        tutti.init(rank=0, size=1, allgather=lambda given: [])
    with pytest.raises(tutti.ArgumentError):
        tutti.init(rank=0, size=1)


def test_memory_of_the_world(world):
    numbers = world.empty((2, 3), np.float32)
    numbers[:] = 2
    assert world.allreduce(numbers).sum() == 12
    assert world.empty(0).size == 0
    del numbers
    gc.collect()


def test_what_the_world_tells(world):
    assert world.query("devices")[0]["name"] == "software"
    assert {each["name"] for each in tutti.describe("config")} >= {"TUTTI_DEVICE"}
    with pytest.raises(tutti.ArgumentError):
        world.query("nonsense")


def test_the_package_and_its_library_agree_on_the_version():
    assert tutti.__version__ == _place.VERSION
    assert os.path.samefile(_library.PATH, os.path.join(os.path.dirname(_library.__file__), _place.LIBRARY))


def test_another_version_of_the_library_is_refused(monkeypatch):
    monkeypatch.setattr(_place, "VERSION", "9.9.0")
    with pytest.raises(ImportError, match=rf"is version 9.9.0, the library .*libtutti.* is version {tutti.__version__}"):
        _library.load(_library.PATH)


def test_a_library_that_is_missing_is_told(monkeypatch):
    monkeypatch.setattr(_place, "LIBRARY", "nowhere/libtutti-of-no-version.so")
    assert _library.find() == "libtutti-of-no-version.so"
    with pytest.raises(ImportError, match="does not find its library.*LD_LIBRARY_PATH"):
        _library.load(_library.find())


def test_info_for_people_and_for_programs():
    for option in [], ["--json"]:
        said = subprocess.run([sys.executable, "-m", "tutti.info", *option], capture_output=True, text=True, check=True,
                              env={**os.environ, "TUTTI_SPIN_US": "7"}).stdout
        assert _library.VERSION in said and "software" in said
        if not option:
            assert "TUTTI_SPIN_US=7 (default -1)" in said
    assert json.loads(said)["library"]["version"] == _library.VERSION


def test_every_public_function_has_hints_and_a_word_on_itself():
    for holder in (tutti.Comm, tutti.Comm.__mro__[1], tutti.Request, tutti.Persistent):
        for name, member in vars(holder).items():
            if callable(member) and not name.startswith("_"):
                assert member.__doc__, f"{holder.__name__}.{name}"
                assert "return" in typing.get_type_hints(member, {**vars(tutti._collectives), **vars(tutti._comm),
                                                                  **vars(tutti._request)}), name


def test_structs_are_as_in_the_header():
    with open(os.environ["TEST_TUTTI_HEADER"]) as file:
        header = file.read()
    for struct, name in [(_library.Options, "options"), (_library.Bootstrap, "bootstrap"), (_library.Error, "error"),
                         (_library.Call, "call"), (_library.Status, "status")]:
        body = re.search(rf"typedef struct {{([^}}]*)}} tutti_{name};", header)[1]
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        declared = re.findall(r"\(\*(\w+)\)\(|(\w+)(?:\[\d+\])?\s*[,;]", re.sub(r"\)\([^)]*\);", ")(;", body))
        assert [field[0].rstrip("_") for field in struct._fields_] == [a or b for a, b in declared], name
    for name in _library.FUNCTIONS:
        assert f" {name}(" in header or f" *{name}(" in header, name
    assert {f"TUTTI_{op.name} = {op.value}" in header for op in Op} == {True}
