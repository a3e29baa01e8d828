# SPDX-License-Identifier: BSD-3-Clause
"""Several ranks; what each of them does and checks is in ranks.py."""
import re

import pytest


@pytest.mark.parametrize("count", [2, 3])
def test_every_collective_gives_what_numpy_gives(ranks, count):
    ranks(count, "collectives")


@pytest.mark.parametrize("function", ["messages", "communicators", "awaited", "interrupted", "mismatch", "timeout"])
def test_of_two_ranks(ranks, function):
    ranks(2, function)


def test_survivors_of_a_death_go_on(ranks):
    # The launcher ends with the status of the rank that was killed.
    assert len(re.findall("went on", ranks(3, "death", fails=True))) == 2


def test_ranks_meet_through_mpi4py(ranks):
    ranks(2, "mpi", launcher="mpirun")


def test_the_interpreter_may_end_without_freeing_the_world(ranks):
    assert ranks(2, "exits").count("[2.]") == 2
    ranks(2, "exits_with_a_request")
