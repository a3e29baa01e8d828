# SPDX-License-Identifier: BSD-3-Clause
"""Runs of tutti-perf, as JSON, and what its sizes mean."""
import json
import pathlib
import sys
import tempfile

import mpirun

# Their size is what goes from one rank to one other; the whole has one such block for each rank.
IN_BLOCKS = ("reduce_scatter_block", "reduce_scatter", "allgather", "allgatherv", "gather", "gatherv", "scatter", "scatterv",
             "alltoall", "alltoallv")


def whole_bytes(collective, ranks, size):
    return size * ranks if collective in IN_BLOCKS else size


def run(command):
    """The JSON of tutti-perf with such a command line, launcher included."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = [*map(str, command), "--json", str(out)]
        status, said = mpirun.run(command, None, env=mpirun.environment())
        if status != 0:
            sys.exit(f"{said}\ncompare: {' '.join(command)} ended with status {status}")
        return json.loads(out.read_text())
