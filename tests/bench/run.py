#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# bench/compare in short: tests/bench/run.py peers|programs BUILD-DIRECTORY. The files stay in BUILD-DIRECTORY/bench-reports.
import json
import pathlib
import subprocess
import sys

CASE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = BUILD / "bench-reports"


def compare(*arguments, status=0):
    done = subprocess.run([sys.executable, ROOT / "bench" / "compare", "--build", BUILD, "--out", OUT, *arguments], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="")
    check(done.returncode == status, f"status {done.returncode} instead of {status}")
    return done.stdout


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def report(name):
    page = (OUT / f"{name}.html").read_text()
    check("http" not in page, "the page needs something else than itself")
    written = json.loads((OUT / f"{name}.json").read_text())
    check(written["meta"]["cores"] > 0, "the machine is not told")
    return written["results"], page


def peers():
    """Every size beside every MPI, with the limit, as a table and as a page."""
    said = compare("--quick")
    results, page = report("compare")
    for collective in ("allreduce", "broadcast"):
        some = [row for row in results if row["collective"] == collective]
        check([row["bytes"] for row in some] == [8 << i for i in range(14)], f"{collective}: not the sizes that were asked for")
        for row in some:
            check(set(row["peers_us"]) == {"openmpi", "mpich"} and row["limit_us"] > 0, f"something is missing in {row}")
            best = min(time["median"] for time in row["peers_us"].values())
            check(abs(row["ratio_to_best"] - best / row["tutti_us"]["median"]) < 1e-9, f"not the ratio of its times: {row}")
    check(page.count("<svg") == 2 and "Open MPI / Tutti, mean" in said, "no chart, or no overview")


def programs():
    """A program of the drop-in's tests without and with it, by its clock; what cannot be run is said."""
    program = str(BUILD / "bin" / "dropin_rank_openmpi")
    compare("--dropin", "--rounds", "1", program, "life")
    (row,), page = report("dropin")
    check(row["program"] == "dropin_rank_openmpi" and row["calls"] > 400, f"calls were not counted: {row}")
    for side in ("without", "with"):
        check(0 < row[side]["collectives_s"]["median"] < row[side]["program_s"]["median"], f"{side}: {row[side]}")
    check("class=part" in page, "no bars")
    check("ended with status" in compare("--dropin", "--rounds", "1", "false", status=1), "a failure is not told")


{"peers": peers, "programs": programs}[CASE]()
