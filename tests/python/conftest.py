# SPDX-License-Identifier: BSD-3-Clause
"""Ranks are processes: `ranks(n, "function")` runs a function of ranks.py on n of them, and fails as they do."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_SECONDS = 60


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


@pytest.fixture
def ranks():
    def start(count, function, *arguments, launcher="tutti-run", **options):
        launch = [os.environ["TEST_TUTTI_RUN"], "-n", str(count)] if launcher == "tutti-run" else \
            ["mpirun", "--oversubscribe", "-n", str(count)]
        return run([*launch, sys.executable, os.path.join(HERE, "ranks.py"), function, *arguments], **options)
    return start
