# SPDX-License-Identifier: BSD-3-Clause
"""The process group, several ranks; what each of them does and checks is in ranks.py and beside it."""
import json
import os
import sys
import time

import pytest
from conftest import run


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_collective_and_type(ranks, count):
    ranks(count, "collectives")


def test_futures_callbacks_profiles_any_source_threads(ranks):
    ranks(3, "works")


def test_what_nobody_waits_for_moves(ranks, tmp_path):
    ranks(2, "moves", str(tmp_path / "store"))


def test_calls_may_end_in_every_way(ranks):
    ranks(2, "mixed")


def test_groups_may_be_destroyed_with_calls_under_way(ranks):
    ranks(2, "destroyed")


def test_groups_of_some_ranks(ranks, tmp_path):
    ranks(3, "groups", str(tmp_path / "store"))


@pytest.mark.parametrize("function", ["refuses", "mismatch", "times_out"])
def test_what_is_wrong_is_told(ranks, function):
    ranks(2, function)


def test_ranks_that_do_not_come_are_named(ranks):
    ranks(3, "nobody_comes")


def test_control_c_ends_a_wait(ranks):
    ranks(1, "interrupted")


@pytest.mark.parametrize("arguments", [[], ["busy"]])
def test_the_interpreter_may_end_without_destroying_the_group(ranks, arguments):
    began = time.monotonic()
    assert ranks(2, "exits", *arguments).count("ends") == 2
    assert time.monotonic() - began < 60


def test_a_rank_that_ends_by_an_exception_is_an_error_on_the_others(ranks):
    assert "was told" in ranks(2, "fails", fails=True)


def test_data_parallel_training_as_with_gloo_and_the_same_every_time(ranks):
    ranks(2, "data_parallel")


def test_two_ranks_with_the_same_data_train_as_one_process(ranks):
    ranks(2, "one_process")


def test_sharded_training(ranks):
    ranks(2, "sharded")


def test_survivors_of_a_death_train_on(ranks):
    assert ranks(3, "death", fails=True).count("trained on") == 2


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_the_example_runs_under_every_launcher(launcher, start):
    example = os.path.join(os.environ["TEST_TUTTI_SOURCE"], "examples", "ddp.py")
    assert "loss" in start(2, [example, "--steps", "20"], launcher)


def test_the_benchmark_writes_its_reports(tmp_path):
    source, build = os.environ["TEST_TUTTI_SOURCE"], os.path.dirname(os.path.dirname(os.environ["TEST_TUTTI_RUN"]))
    said = run([sys.executable, os.path.join(source, "bench", "torch", "run.py"), "--quick", "--build", build, "--out",
                str(tmp_path)])
    assert "torch adds" in said
    results = json.loads((tmp_path / "torch.json").read_text())
    rows = [row for row in results["results"] if row["what"] == "allreduce"]
    assert [row["bytes"] for row in rows] == [8, 64, 512, 4096, 65536]
    assert all(row["tutti_us"]["median"] > 0 and row["peers_us"]["gloo"]["median"] > 0 and row["c_call_us"] > 0 for row in rows)
    page = (tmp_path / "torch.html").read_text()
    assert "<svg" in page and "http" not in page
