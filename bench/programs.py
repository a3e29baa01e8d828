# SPDX-License-Identifier: BSD-3-Clause
"""MPI programs in turns without and with the drop-in: how long they took, and how long they were in blocking collectives,
by the rank that was in them for longest (dropin/clock.c)."""
import html
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import mpirun
import report

def known_programs():
    """(name, command) of those that are installed here."""
    yield "collectives from Python", ["/usr/bin/python3", str(report.ROOT / "tests/apps/collectives.py")]
    if shutil.which("lmp"):
        yield "lammps, a melt", ["lmp", "-in", str(report.ROOT / "tests/apps/melt.in"), "-log", "none", "-var", "SIDE", "10",
                                "-var", "STEPS", "300", "-var", "TOLD", "1"]


def run(options, command, dropin, folder):
    """One run: seconds of the whole, and what the clock says."""
    clock_file = folder / "clock.json"
    clock_file.unlink(missing_ok=True)
    libraries = [options.build / "lib" / f"dropin_clock_{options.mpi}.so"]
    if dropin:
        libraries.append(options.build / "lib" / f"libtutti-mpi-{options.mpi}.so")
    for library in libraries:
        if not library.exists():
            sys.exit(f"compare: there is no {library}: build it (cmake --build --preset release)")
    start = [f"mpirun.{options.mpi}", "-n", str(options.n)]
    if options.mpi == "openmpi":
        start += ["-x", "BENCH_CLOCK_FILE"] + (["--oversubscribe"] if options.n > (os.cpu_count() or 1) else [])
    start += ["env", "LD_PRELOAD=" + ":".join(map(str, libraries))]
    began = time.monotonic()
    status, said = mpirun.run(start + command, None, cwd=folder, env=mpirun.environment(
        OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", BENCH_CLOCK_FILE=str(clock_file)))
    took = time.monotonic() - began
    if status != 0:
        sys.exit(f"{said}\ncompare: {' '.join(command)} ended with status {status} "
                 f"{'with' if dropin else 'without'} the drop-in")
    if not clock_file.exists():
        sys.exit(f"compare: {command[0]} has not called MPI_Finalize")
    return {"seconds": took, **json.loads(clock_file.read_text())}


def compare(options, name, command, folder):
    runs = {False: [], True: []}
    for number in range(options.rounds + 1):
        for dropin in (False, True) if number % 2 else (True, False):
            one = run(options, command, dropin, folder)
            if number > 0:  # the first ones find files and libraries cold
                runs[dropin].append(one)
    result = {"program": name, "command": command, "calls": runs[False][-1]["calls"]}
    for key, of in (("without", False), ("with", True)):
        result[key] = {"program_s": report.summary([one["seconds"] for one in runs[of]]),
                       "collectives_s": report.summary([one["slowest_s"] for one in runs[of]])}
    for what in ("program", "collectives"):
        result[f"{what}_ratio"] = result["without"][f"{what}_s"]["median"] / result["with"][f"{what}_s"]["median"]
    return result


def rows(results):
    yield ["program", "calls", "program: without s", "with s", "ratio", "collectives: without s", "with s", "ratio"]
    for r in results:
        text = lambda side, what: "{median:.3f} ({0:.3f}..{1:.3f})".format(*r[side][what]["quartiles"], **r[side][what])
        yield [r["program"], f"{r['calls']:,}", text("without", "program_s"), text("with", "program_s"), f"{r['program_ratio']:.2f}",
               text("without", "collectives_s"), text("with", "collectives_s"), f"{r['collectives_ratio']:.2f}"]


def bars(results):
    longest = max(r[side]["program_s"]["median"] for r in results for side in ("without", "with"))
    for r in results:
        for side in ("without", "with"):
            whole, part = (r[side][what]["median"] for what in ("program_s", "collectives_s"))
            yield (f"<div class=bar><span>{html.escape(r['program'])}, {side}</span><div class=whole style='width:{60 * whole / longest:.1f}%'>"
                   f"<div class=part style='width:{100 * min(1, part / whole):.1f}%'></div></div>{whole:.2f} s</div>")


def main(options):
    command = [word for word in options.what if word != "--"]
    if command and os.sep in command[0]:
        command[0] = str(pathlib.Path(command[0]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = [(pathlib.Path(command[0]).name, command)] if command else list(known_programs())
        results = [compare(options, name, each, folder) for name, each in programs]
    meta = {"ranks": options.n, "mpi": options.mpi, "rounds": options.rounds, **report.machine()}
    table = list(rows(results))
    intro = (f"<p>{meta['ranks']} ranks, {html.escape(meta['mpi'])}, {html.escape(meta['cpu'])}, {meta['cores']} cores; medians of "
             f"{meta['rounds']} rounds in turns, quartiles in brackets. A ratio above 1: faster with the drop-in. Bars: the program, and in the "
             "darker part its time in blocking collectives.</p>")
    report.write(options.out, "dropin", meta, results, "MPI programs without and with Tutti", [intro, *bars(results), report.table(table)])
    report.print_table(table)
