#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# bench/compare in short, and the benchmarks of parts: tests/bench/run.py peers|programs|sweep|startup|parts BUILD-DIRECTORY. The files stay in BUILD-DIRECTORY/bench-reports.
import json
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import instructions

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


def whole(name):
    return json.loads((OUT / f"{name}.json").read_text())


def report(name):
    page = (OUT / f"{name}.html").read_text()
    check("http" not in page, "the page needs something else than itself")
    written = whole(name)
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
            for time in (row["tutti_us"], *row["peers_us"].values()):
                low, high = time["quartiles"]
                check(low <= time["median"] <= high, f"a median is not between its quartiles: {row}")
            best = min(time["median"] for time in row["peers_us"].values())
            check(abs(row["ratio_to_best"] - best / row["tutti_us"]["median"]) < 1e-9, f"not the ratio of its times: {row}")
    check("Open MPI / Tutti, mean" in said, "no overview")
    for collective in ("allreduce", "broadcast"):
        for chart in ("time", "bandwidth", "ratio to the best peer"):
            check(f"{collective}, 2 ranks: {chart}</h3>" in page, f"{collective} has no chart of its {chart}")
    # By callgrind, as tests/cost has them: how many there may be is said there.
    counted = whole("compare")["instructions"]
    check(set(counted) == set(instructions.CALLS) and min(counted.values()) > 100, f"instructions are not counted: {counted}")
    check(f"<td>{counted['allreduce']:.0f}</td>" in page, "instructions are not on the page")


def sweep():
    """Every size and number of ranks, and whatever looks bad; test_cliffs.py tries what is looked for."""
    said = compare("--sweep", "--quick")
    results, page = report("sweep")
    found = whole("sweep")["findings"]
    for collective in ("allreduce", "reduce+broadcast", "broadcast"):
        for ranks in (2, 3):
            there = [row["bytes"] for row in results if (row["collective"], row["ranks"]) == (collective, ranks)]
            check({1, 2, 3, 8, ranks - 1, ranks, ranks + 1} <= set(there) and there[-1] > 2048, f"{collective}: {there}")
            check(all(b <= max(a + 2, 1.5 * a) for a, b in zip(there, there[1:])), f"{collective}: a step is too wide: {there}")
        check(f"{collective}: time</h3>" in page, f"{collective} has no chart")
    check(f"{len(found)} when measured again" in said, "what was found is not told")
    for each in found:
        check(each["time_us"] > each["beside_us"] > 0 and each["collective"] in page, f"not a finding: {each}")


def startup():
    """Ranks start, beside each MPI's, and their memory is by rank and by peer."""
    said = compare("--startup", "--ranks", "2,6", "--rounds", "1")
    results, page = report("startup")
    check({(row["library"], row["ranks"]) for row in results} == {(library, ranks) for library in ("tutti", "openmpi", "mpich") for ranks in (2, 6)},
          "not all that was asked for")
    for row in results:
        check(0 < row["last_init_s"] <= row["init_s"]["median"] and row["memory_kib"] > 0 and row["threads"] > 0, f"something is missing in {row}")
    few, many = (row["memory_kib"] for row in results if row["library"] == "tutti")
    (growth,) = whole("startup")["kib_for_each_further_peer"]
    check(growth > 0 and abs(growth - (many - few) / 4) < 1e-9, f"{growth} KiB for each peer")
    check("6 ranks" in said and page.count("<svg") == 2, "no table, or no chart")


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


def parts():
    """Each of Google Benchmark's runs for a moment; those that need two cores at the same time for long are left to people."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name, which, some in (("reduce", "^memcpy/|^float/sum/", {"memcpy/8", "float/sum/16384"}),
                              ("softdev", "empty_poll|copy_limit", {"empty_poll/8", "copy_limit/memcpy/65536"}),
                              ("mesh", ".", {"post/8/manual_time", "poll/8/manual_time", "credits_in_words/8/manual_time", "protocol"}),
                              ("match", "match_among", {"match_among/100"}),
                              ("exec", ".", {"call/1", "call/64", "new_plan/64/8", "local_steps/chained/256"})):
        done = subprocess.run([BUILD / "bin" / f"bench_{name}", f"--benchmark_filter={which}", "--benchmark_min_time=0.001", "--benchmark_format=json"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        check(done.returncode == 0, f"bench_{name} ended with {done.returncode}: {done.stderr}")
        runs = {run["name"]: run for run in json.loads(done.stdout)["benchmarks"]}
        check(some <= set(runs), f"bench_{name} has no {some - set(runs)}")
        for run in runs.values():
            check(not run.get("error_occurred") and run["real_time"] > 0, f"bench_{name}: {run}")
        (OUT / f"bench_{name}.json").write_text(done.stdout)


{"peers": peers, "programs": programs, "sweep": sweep, "startup": startup, "parts": parts}[CASE]()
