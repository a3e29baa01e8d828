# SPDX-License-Identifier: BSD-3-Clause
"""Instructions of small calls in the steady state, as callgrind counts them in tests/cost/cost_program.cc: by source line, or
in all. Two ranks, 8 bytes, the software device; every run gives the same counts."""
import collections
import os
import pathlib
import shutil
import subprocess
import tempfile

# The phases of the program, in its order.
CALLS = ("allreduce", "broadcast", "broadcast_root", "reduce", "allgather", "barrier", "send", "recv")


class Failed(Exception):
    """Nothing was counted, and why."""


def count(program, work, **variables):
    """How many times each call was made, and callgrind's file for each of CALLS in the folder `work`."""
    if shutil.which("valgrind") is None:
        raise Failed("there is no valgrind")
    for old in work.glob("callgrind.out*"):
        old.unlink()
    result = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={work}/callgrind.out", "--collect-atstart=no",
         "--toggle-collect=counted_*", *(f"--dump-before=phase_{call}" for call in CALLS[1:]),
         "--compress-strings=no", "--compress-pos=no", program],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ | variables)
    if result.returncode != 0:
        raise Failed(f"{program} under callgrind ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    parts = sorted(work.glob("callgrind.out*"), key=lambda path: (path.suffix == ".out", path.name))
    if len(parts) != len(CALLS):
        raise Failed(f"callgrind wrote {[p.name for p in parts]}: expected {len(CALLS)} parts")
    return int(result.stdout.split()[-1]), dict(zip(CALLS, parts))


def costs_by_line(path):
    """Instructions by (file, line, function), each where its source is."""
    costs = collections.Counter()
    file = function = ""
    skip = False
    for line in path.read_text().splitlines():
        if line.startswith(("fl=", "fi=", "fe=")):
            file = line[3:]
        elif line.startswith("fn="):
            function = line[3:]
        elif line.startswith("calls="):
            skip = True
        elif line[:1].isdigit():
            number, cost = line.split()[:2]
            if not skip:
                costs[file, int(number), function] += int(cost)
            skip = False
    return costs


def per_call(program):
    """{call: instructions}."""
    if not pathlib.Path(program).exists():
        raise Failed(f"there is no {program}: build it (cmake --build --preset release)")
    with tempfile.TemporaryDirectory() as work:
        times, parts = count(program, pathlib.Path(work))
        return {call: sum(costs_by_line(path).values()) / times for call, path in parts.items()}
