#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# torch.distributed with the backends tutti and Gloo, and the C call, in one session: allreduce from 8 bytes to 64 MiB, and
# a training step. Writes torch.json and torch.html, and prints a table.
#   bench/torch/run.py [--build build/release] [--ranks 2] [--out DIR] [--quick]
import argparse
import html
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import report  # noqa: E402: beside this folder

C_RUNS = 3  # before the backends, and again after them


def c_calls(build, ranks, most, times):
    """Microseconds of the C call by bytes, as tutti-perf measures it: of several runs, each half a second."""
    program, runs = os.path.join(build, "bin", "tutti-perf"), {}
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "perf.json")
        for _ in range(times):
            subprocess.run([os.path.join(build, "bin", "tutti-run"), "-n", str(ranks), program, "allreduce", "-b", "8", "-e",
                            str(most), "-f", "2", "-d", "float", "--in-place", "--json", out], check=True, stdout=subprocess.DEVNULL)
            with open(out) as file:
                for row in json.load(file)["results"]:
                    runs.setdefault(row["bytes"], []).append(row["time_us"])
    return runs


def measure(arguments):
    most = 64 << 10 if arguments.quick else 64 << 20
    seconds = 0.02 if arguments.quick else 1.0
    environment = {**os.environ, "PYTHONPATH": os.path.join(arguments.build, "python"), "OMP_NUM_THREADS": "1"}
    before = c_calls(arguments.build, arguments.ranks, most, 1 if arguments.quick else C_RUNS)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "ranks.json")
        subprocess.run([os.path.join(arguments.build, "bin", "tutti-run"), "-n", str(arguments.ranks), sys.executable,
                        os.path.join(HERE, "ranks.py"), out, str(most), str(seconds)], check=True, env=environment)
        with open(out) as file:
            results = json.load(file)
    after = c_calls(arguments.build, arguments.ranks, most, 1 if arguments.quick else C_RUNS)
    of_c = {size: report.summary(before[size] + after[size])["median"] for size in before}
    meta = {"ranks": results["ranks"], "torch": results["torch"], "tutti": results["tutti"], **report.machine()}
    rows = [{"what": "allreduce", "bytes": row["bytes"], "c_call_us": of_c[row["bytes"]], **times(row)}
            for row in results["allreduce"]]
    rows += [{"what": "step of DistributedDataParallel", "parameters": row["parameters"], **times(row)} for row in results["ddp"]]
    return meta, rows


def times(row):
    ours, gloo = report.summary(row["tutti"]), report.summary(row["gloo"])
    return {"tutti_us": ours, "peers_us": {"gloo": gloo}, "ratio_to_best": gloo["median"] / ours["median"]}


def tables(rows):
    """The rows of both tables, as texts, the heading first."""
    def text(time):
        return "{0} ({1}..{2})".format(*map(report.time_text, (time["median"], *time["quartiles"])))

    def common(row):
        return [text(row["tutti_us"]), text(row["peers_us"]["gloo"]), f"{row['ratio_to_best']:.2f}"]
    yield "allreduce of float32", [["size", "tutti µs", "Gloo µs", "Gloo / tutti", "C call µs", "torch adds µs"]] + [
        [report.size_text(row["bytes"]), *common(row), report.time_text(row["c_call_us"]),
         f"{row['tutti_us']['median'] - row['c_call_us']:.1f}"] for row in rows if row["what"] == "allreduce"]
    yield "step of DistributedDataParallel", [["parameters", "tutti µs", "Gloo µs", "Gloo / tutti"]] + [
        [f"{row['parameters']:,}", *common(row)] for row in rows if "parameters" in row]


def main():
    parser = argparse.ArgumentParser(description="torch.distributed with tutti and with Gloo.")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/release"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", default=".")
    parser.add_argument("--quick", action="store_true", help="seconds, up to 64 KiB: to see that it works")
    arguments = parser.parse_args()
    meta, rows = measure(arguments)
    reduced = [row for row in rows if row["what"] == "allreduce"]
    intro = (f"<p>{meta['ranks']} ranks, torch {meta['torch']}, tutti {meta['tutti']}, {html.escape(meta['cpu'])}, {meta['cores']} cores. "
             "Single calls, the slowest rank: the median of a round, and of five rounds that alternate, their quartiles in brackets.</p>")
    chart = report.chart("allreduce: time", [row["bytes"] for row in reduced],
                         {"tutti": [row["tutti_us"]["median"] for row in reduced],
                          "Gloo": [row["peers_us"]["gloo"]["median"] for row in reduced],
                          "C call": [row["c_call_us"] for row in reduced]}, dashed=("C call",))
    parts = [intro, chart]
    for title, table in tables(rows):
        parts += [f"<h2>{title}</h2>", report.table(table)]
        print(title)
        report.print_table(table)
    report.write(arguments.out, "torch", meta, rows, "tutti and Gloo under torch.distributed", parts)


if __name__ == "__main__":
    main()
