#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# tutti-perf as people run it: several ranks, its table, its JSON, its exit status.
#   run.py CASE TUTTI-PERF [LIAR or TUTTI-RUN]
import json
import os
import subprocess
import sys
import tempfile

PERF = sys.argv[2]
KEYS = ["collective", "bytes", "count", "dtype", "op", "root", "algorithm", "in_place", "time_us", "min_us", "max_us",
        "algbw_gbs", "busbw_gbs", "wrong", "quartiles_us"]


def run(ranks, *words, launcher=None, **environment):
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **environment}
    start = launcher or ["mpirun", "--oversubscribe", "-n", str(ranks)]
    # A hang is a failure of this case, and mpirun takes its ranks along when it is asked to end.
    done = subprocess.run(["timeout", "--kill-after=10", "200", *start, PERF, *words], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)
    print(done.stdout, done.stderr, f"exit status {done.returncode}", sep="\n")
    return done


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def rows(done):
    return [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]


def case_right():
    for ranks in (1, 2, 3):
        for words in (["allreduce"], ["allreduce", "--in-place", "-d", "int16", "-o", "prod"],
                      ["broadcast", "-r", str(ranks - 1), "-d", "uint8"], ["allreduce", "-d", "bfloat16", "-o", "avg"],
                      ["allreduce", "-d", "double_int", "-o", "minloc"], ["allreduce", "-d", "int8", "-o", "premul_sum"],
                      ["allreduce", "-d", "byte", "-o", "user", "--in-place"]):
            done = run(ranks, *words, "-b", "0", "-e", "256K", "-f", "16", "-n", "20")
            expect(done.returncode == 0, "right results give status 0")
            expect(all(row[10] == "0" for row in rows(done)), "no value is wrong")
            expect([int(row[0]) for row in rows(done)][:2] in ([0, 16], [0, 4], [0, 2], [0, 1]), "sizes start with the empty call")
            expect(done.stderr == "", "stderr is empty where it is no terminal")


def case_every_collective():
    for collective in ("barrier", "reduce", "reduce_scatter_block", "reduce_scatter", "allgather", "allgatherv", "gather",
                       "gatherv", "scatter", "scatterv", "alltoall", "alltoallv", "scan", "exscan", "reduce+broadcast"):
        places = [[]] if collective in ("barrier", "gather", "gatherv", "scatter", "scatterv") else [[], ["--in-place"]]
        for words in places:
            done = run(3, collective, *words, "-r", "1", "-b", "8", "-e", "64K", "-f", "128", "-n", "8", "--vs", "mpi")
            expect(done.returncode == 0, "right results give status 0")
            expect(all(row[10] == "0" for row in rows(done)), "no value is wrong")
            expect(len(rows(done)) == (1 if collective == "barrier" else 2), "a row for each size")


def case_table():
    done = run(2, "allreduce", "-b", "8", "-e", "32", "--vs", "mpi")
    head = [line.lstrip("#").split() for line in done.stdout.splitlines() if line.startswith("#") and "busbw" in line][0]
    expect(head == ["bytes", "count", "type", "op", "root", "time", "min", "max", "algbw", "busbw", "#wrong", "MPI",
                    "time", "MPI/ours"], f"columns are {head}")
    for row in rows(done):
        expect(len(row) == 13, "each row fills its columns")
        expect(float(row[6]) <= float(row[5]) <= float(row[7]), "min <= median <= max")
    expect("# device: " in done.stdout and "# binding: " in done.stdout, "the header names device and binding")


def case_json():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out.json")
        done = run(2, "allreduce", "-b", "1K", "-e", "64K", "-f", "64", "--vs", "mpi", "--json", file)
        expect(done.returncode == 0, "status 0")
        with open(file, encoding="utf-8") as opened:
            document = json.load(opened)
    expect({"version", "device", "ranks", "host", "MPI"} <= set(document["meta"]), "meta is complete")
    expect(document["meta"]["ranks"] == 2, "two ranks")
    expect([row["bytes"] for row in document["results"]] == [1024, 65536], "a row for each size")
    for row in document["results"]:
        expect(list(row)[:len(KEYS)] == KEYS, f"keys are {list(row)}")
        expect(row["peer_us"] > 0 and abs(row["ratio"] - row["peer_us"] / row["time_us"]) < 1e-6, "the ratio is MPI/ours")
        for low, median, high in ((row["quartiles_us"][0], row["time_us"], row["quartiles_us"][1]),
                                  (row["peer_quartiles_us"][0], row["peer_us"], row["peer_quartiles_us"][1])):
            expect(low <= median <= high, "medians are between quartiles")
        expect(abs(row["algbw_gbs"] - row["bytes"] / row["time_us"] / 1e3) < 1e-9, "bytes over time")
        expect(abs(row["busbw_gbs"] - row["algbw_gbs"] * 2 * (2 - 1) / 2) < 1e-9, "the factor of an allreduce")


def case_limit():
    # Both ranks have to run at the same moment, which a busy host denies them now and then; it says so, then.
    for _ in range(5):
        done = run(2, "broadcast", "--sizes", "8,1M", "--vs", "limit")
        if "do not run at the same time" not in done.stderr:
            break
    if (os.cpu_count() or 1) < 2 or len(os.sched_getaffinity(0)) < 2:
        expect(done.returncode == 2 and "needs a core for each" in done.stderr, "one core cannot hand anything over")
        return
    expect(done.returncode == 0, "status 0")
    limits = [float(row[-1]) for row in rows(done)]
    expect(limits[0] > 0 and limits[-1] > limits[0], "a limit in each row, growing")
    done = run(1, "allreduce", "--vs", "limit")
    expect(done.returncode != 0 and "needs two ranks" in done.stderr, "one rank has no limit")


def case_wrong():
    for collective in ("allreduce", "broadcast"):
        for call in ("1", "40"):
            done = run(3, collective, "-b", "1K", "-e", "128K", "-f", "128", "-n", "40", LD_PRELOAD=sys.argv[3],
                       LIAR_RANK="2", LIAR_CALL=call)
            wrong = sum(int(row[10]) for row in rows(done))  # warm-up calls are checked like all others
            expect(wrong == 1 and done.returncode == 1, f"one wrong bit on rank 2 is one wrong value: {wrong}")
    done = run(3, "allreduce", "-b", "1K", "-e", "1K", "-c", "0", LD_PRELOAD=sys.argv[3], LIAR_RANK="2", LIAR_CALL="40")
    expect(done.returncode == 0 and rows(done)[0][10] == "N/A", "-c 0 does not look")


def case_usage():
    for words, text in ((["nothing"], "there is no collective 'nothing'"), (["broadcast", "-r", "2"], "it takes 0 to 1"),
                        (["allreduce", "-d", "half"], "there is no type 'half'"),
                        (["allreduce", "-d", "float16", "--vs", "mpi"], "MPI has no float16"),
                        (["allreduce", "-o", "avg", "--vs", "mpi"], "MPI has no operator avg")):
        done = run(2, *words)
        expect(done.returncode == 2, "status 2")
        expect(done.stderr.count(text) == 1, "said once, by one rank")
        expect(not rows(done), "nothing was measured")
    done = run(2, "allreduce", "-e", "8", "--json", "/nothing/out.json")
    expect(done.returncode == 3 and "cannot write /nothing/out.json" in done.stderr, "an unwritable file is said early")
    expect(not rows(done), "before measuring")
    done = run(2, "allreduce", "-e", "8", "--algorithm", "nothing")
    expect(done.returncode == 3 and done.stderr.count("nothing") >= 1, "an unknown algorithm is an error")


def case_without_mpi():
    start = [sys.argv[3], "-n", "3"]
    done = run(3, "allreduce", "-e", "64K", "-f", "16", launcher=start)
    expect(done.returncode == 0 and "3 ranks" in done.stdout and "MPI: none" in done.stdout, "three ranks without MPI")
    expect(all(row[10] == "0" for row in rows(done)), "no value is wrong")
    done = run(3, "allreduce", "--vs", "mpi", launcher=start)
    expect(done.returncode == 2 and "start tutti-perf with mpirun" in done.stderr, "--vs mpi needs MPI")


globals()["case_" + sys.argv[1]]()
