#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the instructions of small calls in the steady state, and which of them are there for recovery and health.

Instructions do not depend on how fast a machine is or what else it does, so they can be gated. callgrind counts one
rank's calls of cost_program, whose other rank is always ready, by source line, inlined code included.

usage: run.py PROGRAM WORK [-v]
"""
import collections
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import instructions

# Instructions of one call of 8 bytes on the software device, a tenth above what they were: whoever makes calls cheaper
# lowers these.
LIMITS = {"allreduce": 805, "broadcast": 595, "broadcast_root": 610, "reduce": 635, "allgather": 805, "barrier": 720,
          "send": 830, "recv": 1495}
# The same without boards.
LIMITS_OF_MESSAGES = {**LIMITS, "allreduce": 2260, "broadcast": 1310, "broadcast_root": 920, "reduce": 1345, "allgather": 2020,
                      "barrier": 1915}
# What recovery and health may add to a call with nothing failing.
HEALTH_LIMIT = 40

# Recovery and health are whole files, and lines elsewhere that have to do with it by what they name.
HEALTH_FILES = re.compile(r"/src/(link/recovery\.|mesh/reconnect\.|mesh/events\.|mesh/shortage\.|control/|comm/live_view|base/live)")
HEALTH_NAMES = re.compile(r"broken|trouble|recover|reconnect|retained|same_generation|peer\.generation|owes\(|probe|rearm|epoch|aborted\(\)|failure\(\)|failed_")


def source_line(file, number, cache={}):
    if file not in cache:
        path = pathlib.Path(file)
        cache[file] = path.read_text().splitlines() if path.is_file() else []
    lines = cache[file]
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def is_health(file, text):
    return "/src/" in file and bool(HEALTH_FILES.search(file) or HEALTH_NAMES.search(text))


def main():
    bad = check(LIMITS, {}) + check(LIMITS_OF_MESSAGES, {"TUTTI_BOARDS": "0"})
    print("\n".join(bad))
    sys.exit(1 if bad else 0)


def check(limits, variables):
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    print(" ".join(f"{name}={value}" for name, value in variables.items()) or "By default", end=":\n")
    try:
        times, parts = instructions.count(program, work, **variables)
    except instructions.Failed as failed:
        sys.exit(str(failed))
    bad = []
    for name, path in parts.items():
        costs = instructions.costs_by_line(path)
        whole = sum(costs.values()) / times
        if not any("/src/" in file for file, _, _ in costs):
            sys.exit("no source lines: the library has no debug information")
        health = collections.Counter()
        for (file, number, function), cost in costs.items():
            text = source_line(file, number)
            if is_health(file, text):
                health[f"{file.split('/src/')[-1]}:{number}", text] += cost
        added = sum(health.values()) / times
        print(f"{name}: {whole:.1f} instructions (limit {limits[name]}), of which {added:.1f} for recovery and health "
              f"(limit {HEALTH_LIMIT})")
        for (place, text), cost in health.most_common():
            print(f"  {cost / times:6.1f}  {place}  {text}")
        if "-v" in sys.argv:
            by_file = collections.Counter()
            for (file, number, function), cost in costs.items():
                by_file[file.split('/src/')[-1], function] += cost
            for (place, function), cost in by_file.most_common(40):
                print(f"  {cost / times:8.1f}  {place}  {function[:100]}")
        if whole > limits[name]:
            bad.append(f"{name} takes {whole:.1f} instructions, more than {limits[name]}")
        if added > HEALTH_LIMIT:
            bad.append(f"recovery and health add {added:.1f} instructions to {name}, more than {HEALTH_LIMIT}")
    return bad


if __name__ == "__main__":
    main()
