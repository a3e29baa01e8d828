# SPDX-License-Identifier: BSD-3-Clause
"""Tutti alone over narrow steps of size and every number of ranks: where its curves have cliffs, and where it would be faster to
call something else (cliffs.py)."""
import html
import os
import random
import statistics

import cliffs
import perf
import report

COLLECTIVES = ["allreduce", "reduce+broadcast", "reduce", "broadcast", "allgather", "gather", "scatter", "alltoall", "reduce_scatter_block", "scan",
               "barrier"]
RANKS = [2, 3, 4, 5, 6, 7, 8, 9]
STEP = 1.4
LARGEST = 16 << 20  # of the whole vector


def sizes(collective, ranks, largest):
    """From 1 B in steps of 1.4, and ranks - 1, ranks and ranks + 1 elements of one byte."""
    if collective == "barrier":
        return [0]
    most = largest // perf.whole_bytes(collective, ranks, 1)
    steps, size = {cliffs.SMALL, ranks - 1, ranks, ranks + 1}, 1.0
    while size <= most:
        steps.add(int(size))
        size *= STEP
    return sorted(size for size in steps if size <= most)


def run(options, collective, ranks, some, *more):
    """{bytes: row}. Under our own launcher, a core for each rank where there are as many. Sizes come in any order, so that what
    the machine does meanwhile is no feature of a curve, and the first one, which finds everything cold, once more."""
    command = [options.build / "bin" / "tutti-run", "-n", ranks, options.build / "bin" / "tutti-perf", collective, "-d", "uint8", *more]
    if collective != "barrier":
        mixed = random.sample(some, len(some))
        command += ["--sizes", ",".join(map(str, [mixed[-1], *mixed]))]
    return {row["bytes"]: row for row in perf.run(command)["results"]}


def measure(options, samples, wanted):
    """Adds what the runs took to samples: {(collective, ranks): {bytes: [(median, quartiles)]}}; collectives take turns."""
    for _ in range(options.rounds):
        for (collective, ranks), some in wanted.items():
            for size, row in run(options, collective, ranks, some, "-c", "0").items():
                samples.setdefault((collective, ranks), {}).setdefault(size, []).append((row["time_us"], row["quartiles_us"]))


def table_of(samples, of=statistics.median):
    return {which: {size: of([median for median, _ in times]) for size, times in by_size.items()}
            for which, by_size in samples.items()}


def look(options, ranks, collectives, largest):
    """Measures everything, and again what looks bad, since the machine is never quiet: what is found twice counts."""
    samples = {}
    wanted = {(collective, count): sizes(collective, count, largest) for count in ranks for collective in collectives}
    for (collective, count), some in wanted.items():
        run(options, collective, count, some, "-c", "1", "-n", "2", "-w", "1")  # right values first
    measure(options, samples, wanted)
    first = cliffs.findings(table_of(samples))
    if first:
        measure(options, samples, {which: sorted(some) for which, some in cliffs.concerned(first, table_of(samples)).items()})
    # A cliff of ours is there by the medians of the runs and by the least of them. A busy machine lifts single runs, and one that
    # moves ranks nearer to each other lowers some.
    again = {found.key() for found in first} & {found.key() for found in cliffs.findings(table_of(samples, min))}
    return samples, [found for found in cliffs.findings(table_of(samples)) if found.key() in again], len(first)


def rows(found):
    yield ["collective", "what", "ranks", "sizes", "from", "to", "worst at", "µs", "beside", "µs", "ratio"]
    for group in cliffs.groups(found):
        each, sizes_found = group[0], [report.size_text(size) for size in sorted(each.bytes for each in group)]
        name, size = each.beside
        yield [each.collective, each.kind, each.ranks, len(group), sizes_found[0], sizes_found[-1], report.size_text(each.bytes),
               report.time_text(each.us), report.size_text(size) if name == each.collective else name,
               report.time_text(each.beside_us), f"{each.ratio:.2f}"]


def charts(samples, found):
    for collective in dict.fromkeys(name for name, _ in samples):
        lines = {f"{ranks} ranks": by_size for (name, ranks), by_size in table_of(samples).items() if name == collective}
        across = sorted({size for by_size in lines.values() for size in by_size})
        if len(across) < 2:
            continue  # a barrier: in the table of single sizes
        marks = {f"{each.ranks} ranks": {e.bytes for e in found if e.collective == collective and e.ranks == each.ranks}
                 for each in found if each.collective == collective}
        yield report.chart(f"{collective}: time", across, {name: [by_size.get(size) for size in across] for name, by_size in lines.items()},
                           marks=marks)


def main(options):
    collectives = options.what or COLLECTIVES
    ranks = [int(count) for count in options.ranks.split(",")] if options.ranks else RANKS
    largest = LARGEST
    if options.quick:
        collectives, ranks, largest = ["allreduce", "reduce+broadcast", "broadcast", "barrier"], [2, 3], 4096
    samples, found, suspected = look(options, ranks, collectives, largest)
    results = []
    for (collective, count), by_size in samples.items():
        for size, times in sorted(by_size.items()):
            summary = report.summary([median for median, _ in times], [quartiles for _, quartiles in times])
            results.append({"collective": collective, "ranks": count, "bytes": size, "tutti_us": summary})
    meta = {"rounds": options.rounds, "step": STEP, "noise": cliffs.NOISE, "cliff": cliffs.CLIFF, "suspected": suspected, **report.machine()}
    written = [{"kind": each.kind, "collective": each.collective, "ranks": each.ranks, "bytes": each.bytes, "time_us": each.us,
                "beside": list(each.beside), "beside_us": each.beside_us, "ratio": each.ratio} for each in found]
    overview = list(rows(found))
    crowded = " with more ranks than cores, times hang on the kernel's scheduler, too;" if max(ranks) > (os.cpu_count() or 1) else ""
    intro = (f"<p>{html.escape(meta['cpu'])}, {meta['cores']} cores, {html.escape(meta['system'])}, commit {meta['commit']}. Elements of "
             f"one byte, {meta['rounds']} runs;{crowded} what looked bad was measured as often again, and is here if it still "
             f"does, by the medians and by the least of the runs ({len(found)} of {suspected}).</p><p>cliff: more than {cliffs.CLIFF:g} times as slow as both neighbours. order: more than "
             f"{cliffs.NOISE:g} times as slow as a larger size. consistency: more than {cliffs.NOISE:g} times as slow as others that do its "
             "work. Circles in the charts are these points.</p>")
    single = [[each["collective"], f"{each['ranks']} ranks", report.time_text(each["tutti_us"]["median"])] for each in results
              if each["collective"] == "barrier"]
    parts = [intro, report.table(overview) if found else "<p>None.</p>", report.side_by_side(charts(samples, found)),
             *([report.table([["", "", "µs"], *single])] if single else [])]
    report.write(options.out, "sweep", meta, results, "Tutti over all sizes", parts, findings=written)
    report.print_table(overview)
    print(f"{len(results)} points, {suspected} findings at first, {len(found)} when measured again")
