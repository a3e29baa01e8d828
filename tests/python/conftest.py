# SPDX-License-Identifier: BSD-3-Clause
"""Ranks are processes: `ranks(n, "function")` runs a function of the test's ranks.py on n of them, and fails as they do."""
import os
import subprocess
import sys

import pytest

LIMIT_SECONDS = 120


def run(command, *, fails=False, env=None):
    """Runs a command; its output. Fails with that output unless it succeeds (or, `fails`, does not)."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "PYTHONFAULTHANDLER": "1", **(env or {})}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"{command} hangs\n{error.stdout}\n{error.stderr}")
    said = ended.stdout + ended.stderr
    assert (ended.returncode != 0) == fails, f"{command} ended with {ended.returncode}\n{said}"
    return said


def launched(count, arguments, launcher, **options):
    """Runs a Python program on so many ranks."""
    if launcher == "torchrun":
        # Under Python 3.11 the torchrun of PyTorch 1.13 fails without -r and -t.
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "-r", "1", "-t", "1",
                  "--nproc_per_node", str(count)]
    elif launcher == "mpirun":
        launch = ["mpirun", "--oversubscribe", "-n", str(count), sys.executable]
    else:
        launch = [os.environ["TEST_TUTTI_RUN"], "-n", str(count), sys.executable]
    return run([*launch, *arguments], **options)


@pytest.fixture
def start():
    return launched


@pytest.fixture
def ranks(request):
    program = os.path.join(os.path.dirname(request.path), "ranks.py")

    def start_function(count, function, *arguments, launcher="tutti-run", **options):
        return launched(count, [program, function, *arguments], launcher, **options)
    return start_function
