#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# torch.distributed with the backends tutti and Gloo, and the C call, in one session: allreduce from 8 bytes to 64 MiB, and
# a training step. Writes torch.json and torch.html, and prints a table.
#   bench/torch/run.py [--build build/release] [--ranks 2] [--out DIR] [--quick]
import argparse
import html
import json
import math
import os
import platform
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def text_of(bytes_):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if bytes_ >= unit:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"


def c_calls(build, ranks, most):
    """Seconds of the C call by bytes, as tutti-perf measures it."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "perf.json")
        program = os.path.join(build, "bin", "tutti-perf")
        subprocess.run([os.path.join(build, "bin", "tutti-run"), "-n", str(ranks), program, "allreduce", "-b", "8", "-e",
                        str(most), "-f", "2", "-d", "float", "--in-place", "--json", out], check=True, stdout=subprocess.DEVNULL)
        with open(out) as file:
            perf = json.load(file)
    return {row["bytes"]: row["time_us"] * 1e-6 for row in perf["results"]}


def measure(arguments):
    most = 64 << 10 if arguments.quick else 64 << 20
    seconds = 0.02 if arguments.quick else 1.0
    environment = {**os.environ, "PYTHONPATH": os.path.join(arguments.build, "python"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "ranks.json")
        subprocess.run([os.path.join(arguments.build, "bin", "tutti-run"), "-n", str(arguments.ranks), sys.executable,
                        os.path.join(HERE, "ranks.py"), out, str(most), str(seconds)], check=True, env=environment)
        with open(out) as file:
            results = json.load(file)
    of_c = c_calls(arguments.build, arguments.ranks, most)
    for row in results["allreduce"]:
        row["c"] = of_c.get(row["bytes"])
    results["machine"] = {"cpu": cpu(), "cores": os.cpu_count(), "system": platform.platform()}
    results["units"] = "seconds: the median of single calls, of the slowest rank, in the best of five rounds"
    return results


def cpu():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")


def tables(results):
    """The rows of both tables, as texts, the heading first."""
    yield "allreduce of float32", [["size", "tutti µs", "Gloo µs", "Gloo / tutti", "C call µs", "torch adds µs"]] + [
        [text_of(row["bytes"]), f"{row['tutti'] * 1e6:.1f}", f"{row['gloo'] * 1e6:.1f}",
         f"{row['gloo'] / row['tutti']:.1f}",
         "" if row["c"] is None else f"{row['c'] * 1e6:.1f}",
         "" if row["c"] is None else f"{(row['tutti'] - row['c']) * 1e6:.1f}"] for row in results["allreduce"]]
    yield "step of DistributedDataParallel", [["parameters", "tutti ms", "Gloo ms", "Gloo / tutti"]] + [
        [f"{row['parameters']:,}", f"{row['tutti'] * 1e3:.2f}", f"{row['gloo'] * 1e3:.2f}",
         f"{row['gloo'] / row['tutti']:.2f}"] for row in results["ddp"]]


def chart(results):
    """Both curves over the size, both axes logarithmic, as SVG."""
    rows, width, height, left = results["allreduce"], 640, 320, 60
    times = [row[name] for row in rows for name in ("tutti", "gloo")]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def place(row, name):
        across = math.log2(row["bytes"] / rows[0]["bytes"]) / max(1, math.log2(rows[-1]["bytes"] / rows[0]["bytes"]))
        up = (math.log10(row[name]) - low) / (high - low)
        return f"{left + across * (width - left - 20):.1f},{height - 30 - up * (height - 50):.1f}"
    lines = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="time of an allreduce by size">']
    for power in range(low, high + 1):
        y = height - 30 - (power - low) / (high - low) * (height - 50)
        lines.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" class="grid"/>'
                     f'<text x="4" y="{y + 4:.1f}">{10 ** (power + 6):g} µs</text>')
    for row in rows:
        lines.append(f'<text x="{place(row, "tutti").split(",")[0]}" y="{height - 10}" text-anchor="middle">'
                     f'{text_of(row["bytes"])}</text>')
    for name in ("tutti", "gloo"):
        lines.append(f'<polyline class="{name}" points="{" ".join(place(row, name) for row in rows)}"/>')
    return "\n".join(lines + ["</svg>"])


def page(results):
    machine = results["machine"]
    parts = ["""<!doctype html><html lang="en"><meta charset="utf-8"><title>tutti and Gloo under torch.distributed</title><style>
body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}td,th{padding:.2em 1em;text-align:right}
table{border-collapse:collapse}tr:nth-child(even){background:#f2f2f2}svg{width:100%}svg text{font-size:11px}
polyline{fill:none;stroke-width:2}.tutti{stroke:#06c;color:#06c}.gloo{stroke:#c50;color:#c50}.grid{stroke:#ddd}</style>""",
             f"<h1>tutti and Gloo under torch.distributed</h1><p>{results['ranks']} ranks, torch {results['torch']}, tutti "
             f"{results['tutti']}, {html.escape(machine['cpu'])}, {machine['cores']} cores. {results['units'].capitalize()}."
             '</p><p>Lines: <b class="tutti">tutti</b>, <b class="gloo">Gloo</b>.</p>', chart(results)]
    for title, rows in tables(results):
        parts.append(f"<h2>{title}</h2><table>")
        for number, row in enumerate(rows):
            cell = "td" if number else "th"
            parts.append("<tr>" + "".join(f"<{cell}>{html.escape(each)}</{cell}>" for each in row) + "</tr>")
        parts.append("</table>")
    return "\n".join(parts) + "</html>\n"


def main():
    parser = argparse.ArgumentParser(description="torch.distributed with tutti and with Gloo.")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/release"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", default=".")
    parser.add_argument("--quick", action="store_true", help="seconds, up to 64 KiB: to see that it works")
    arguments = parser.parse_args()
    results = measure(arguments)
    os.makedirs(arguments.out, exist_ok=True)
    with open(os.path.join(arguments.out, "torch.json"), "w") as file:
        json.dump(results, file, indent=1)
    with open(os.path.join(arguments.out, "torch.html"), "w") as file:
        file.write(page(results))
    for title, rows in tables(results):
        print(title)
        for row in rows:
            print("".join(f"{each:>16}" for each in row))


if __name__ == "__main__":
    main()
