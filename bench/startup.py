# SPDX-License-Identifier: BSD-3-Clause
"""Start-up on this machine by number of processes: seconds inside of tutti_init, memory by rank and by queue pair, and the same
of MPI_Init (startup/startup.c)."""
import html
import json
import sys

import mpirun
import report

RANKS = [2, 4, 8, 16, 32, 64]
NAMES = {"tutti": "Tutti", "openmpi": "Open MPI", "mpich": "MPICH"}


def run(options, library, ranks):
    start = {"tutti": [options.build / "bin" / "tutti-run", "-n", ranks], "mpich": ["mpirun.mpich", "-n", ranks],
             "openmpi": ["mpirun.openmpi", "-n", ranks, "--oversubscribe"]}[library]
    command = [*map(str, start), str(options.build / "bin" / f"startup_{library}")]
    status, said = mpirun.run(command, None, env=mpirun.environment())
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if status != 0 or len(lines) != 1:
        sys.exit(f"{said}\ncompare: {' '.join(command)} ended with status {status}")
    return json.loads(lines[0])


def measure(options, library, ranks):
    """Seconds with quartiles; the rest is nearly the same in all runs."""
    runs = [run(options, library, ranks) for _ in range(options.rounds)]
    middle = lambda what, which: report.summary([one[what][which] for one in runs])["median"]
    return {"library": library, "ranks": ranks, "init_s": report.summary([one["init_s"]["max"] for one in runs]),
            "last_init_s": middle("init_s", "last"), "memory_kib": middle("memory_kib", "mean"), "most_memory_kib": middle("memory_kib", "max"),
            "resident_kib": middle("resident_kib", "mean"), "descriptors": runs[0]["descriptors"], "threads": runs[0]["threads"]}


def growth(results):
    """Of one library: KiB that one more peer costs, from each number of ranks to the next. Linear growth: about the same each
    time."""
    return [(after["memory_kib"] - before["memory_kib"]) / (after["ranks"] - before["ranks"]) for before, after in zip(results, results[1:])]


def rows(results, libraries):
    yield ["", *[f"{NAMES[library]}: init s" for library in libraries], "the last rank's s", "MiB a rank", "KiB for each further peer",
           "descriptors", "threads"]
    ours = [each for each in results if each["library"] == "tutti"]
    for each, peer in zip(ours, [None, *growth(ours)]):
        times = [next(other["init_s"] for other in results if (other["library"], other["ranks"]) == (library, each["ranks"]))
                 for library in libraries]
        yield [f"{each['ranks']} ranks", *["{median:.3f} ({0:.3f}..{1:.3f})".format(*time["quartiles"], **time) for time in times],
               f"{each['last_init_s']:.3f}", f"{each['memory_kib'] / 1024:.2f}", "" if peer is None else f"{peer:.1f}",
               each["descriptors"], each["threads"]]


def main(options):
    ranks = [int(count) for count in options.ranks.split(",")] if options.ranks else RANKS[:3] if options.quick else RANKS
    libraries = [library for library in NAMES if (options.build / "bin" / f"startup_{library}").exists()]
    if "tutti" not in libraries:
        sys.exit(f"compare: there is no startup_tutti in {options.build / 'bin'}: build it (cmake --build --preset release)")
    if options.what:
        libraries = [library for library in libraries if library == "tutti" or library in options.what]
    results = [measure(options, library, count) for count in ranks for library in libraries]
    ours = [each for each in results if each["library"] == "tutti"]
    meta = {"rounds": options.rounds, **report.machine()}
    more = growth(ours)
    table = list(rows(results, libraries))
    intro = (f"<p>{html.escape(meta['cpu'])}, {meta['cores']} cores, {html.escape(meta['system'])}, commit {meta['commit']}. Seconds inside of "
             f"tutti_init and MPI_Init: those of the rank that was in it for longest, which waits for processes that start later; medians of "
             f"{meta['rounds']} runs. Memory: what start-up adds to a rank beside files, shared pages by their share, mean of the ranks. A "
             "rank has one queue pair for each peer.</p>")
    parts = [intro, report.table(table)]
    if len(ranks) > 1:
        series = {NAMES[library]: [each["init_s"]["median"] for each in results if each["library"] == library] for library in libraries}
        memory = {NAMES[library]: [each["memory_kib"] / 1024 for each in results if each["library"] == library] for library in libraries}
        parts.append(report.side_by_side([report.chart("Seconds in start-up", ranks, series, unit="s", across="{} ranks"),
                                          report.chart("Memory of a rank", ranks, memory, unit="MiB", across="{} ranks")]))
    report.write(options.out, "startup", meta, results, "Start-up", parts, kib_for_each_further_peer=more)
    report.print_table(table)
