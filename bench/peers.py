# SPDX-License-Identifier: BSD-3-Clause
"""Collectives beside those of Open MPI and MPICH, and beside what the machine allows, by number of ranks and size."""
import html
import os
import sys

import instructions
import perf
import report

PEERS = {"openmpi": ("Open MPI", "tutti-perf"), "mpich": ("MPICH", "tutti-perf-mpich")}
COLLECTIVES = ["allreduce", "broadcast", "reduce", "reduce_scatter_block", "allgather", "alltoall", "barrier"]
WITH_LIMIT = ("allreduce", "broadcast", "barrier")


def run(options, peer, collective, ranks, limit, checked):
    """The results of one run of tutti-perf beside one MPI."""
    smallest, largest = options.sizes.split("-")
    start = [f"mpirun.{peer}", "-n", ranks]
    crowded = ranks > (os.cpu_count() or 1)
    if peer == "openmpi":
        start += ["--oversubscribe"] if crowded else ["--bind-to", "core"]
    elif not crowded:
        start += ["-bind-to", "core"]
    return perf.run([*start, options.build / "bin" / PEERS[peer][1], collective, "-b", smallest, "-e", largest, "-c", int(checked),
                     "--vs", "mpi", *(["--vs", "limit"] if limit else [])])


def installed(options):
    found = [peer for peer, (_, program) in PEERS.items() if (options.build / "bin" / program).exists()]
    if not found:
        sys.exit(f"compare: there is no tutti-perf in {options.build / 'bin'}: build it (cmake --build --preset release)")
    return found


def measure(options, collective, ranks, peers):
    """One result for each size."""
    points, versions = {}, {}
    for peer in peers:
        run(options, peer, collective, ranks, False, True)  # right values first, and warm
        for _ in range(options.rounds):
            one = run(options, peer, collective, ranks, collective in WITH_LIMIT and ranks == 2, False)
            versions[peer] = one["meta"]
            for row in one["results"]:
                point = points.setdefault(row["bytes"], {"limit": [], **{name: [] for name in ("tutti", *peers)}})
                point["tutti"].append((row["time_us"], row["quartiles_us"]))
                point[peer].append((row["peer_us"], row["peer_quartiles_us"]))
                if row.get("limit_us"):
                    point["limit"].append(row["limit_us"])
    results = []
    for size, point in sorted(points.items()):
        summary = lambda name: report.summary(*zip(*point[name]))
        times, ours = {peer: summary(peer) for peer in peers}, summary("tutti")
        best = min(time["median"] for time in times.values())
        results.append({"collective": collective, "ranks": ranks, "bytes": size, "tutti_us": ours, "peers_us": times,
                        "limit_us": min(point["limit"]) if point["limit"] else None,
                        "ratio_to_best": best / ours["median"],
                        "ratios": {peer: time["median"] / ours["median"] for peer, time in times.items()}})
    return results, versions


def rows(results, peers):
    names = [PEERS[peer][0] for peer in peers]
    yield ["size", "Tutti µs", *[f"{name} µs" for name in names], "best peer / Tutti", "limit µs"]
    for r in results:
        text = lambda time: "{0} ({1}..{2})".format(*map(report.time_text, (time["median"], *time["quartiles"])))
        yield [report.size_text(r["bytes"]), text(r["tutti_us"]), *[text(r["peers_us"][peer]) for peer in peers],
               f"{r['ratio_to_best']:.2f}", "" if r["limit_us"] is None else report.time_text(r["limit_us"])]


def charts(title, results, peers):
    """Time, bandwidth, and how many times as long the best peer takes; as a row of drawings."""
    sizes = [r["bytes"] for r in results]
    if len(sizes) < 2:
        return []
    times = {"Tutti": [r["tutti_us"] for r in results], **{PEERS[peer][0]: [r["peers_us"][peer] for r in results] for peer in peers}}
    medians = {name: [time["median"] for time in line] for name, line in times.items()}
    if any(r["limit_us"] for r in results):
        medians["limit"] = [r["limit_us"] for r in results]
    whole = [perf.whole_bytes(r["collective"], r["ranks"], r["bytes"]) for r in results]
    bandwidths = {name: [size / 1e3 / time if time else None for size, time in zip(whole, line)] for name, line in medians.items()}
    ratios = {"best peer / Tutti": [r["ratio_to_best"] for r in results]}
    return [report.side_by_side([
        report.chart(f"{title}: time", sizes, medians, dashed=("limit",),
                     bands={name: [time["quartiles"] for time in line] for name, line in times.items()}),
        report.chart(f"{title}: bandwidth", sizes, bandwidths, dashed=("limit",), unit="GB/s"),
        report.chart(f"{title}: ratio to the best peer", sizes, ratios, unit="")])]


def count_instructions(options):
    """Of calls of 8 bytes, and why not where nothing was counted."""
    try:
        return instructions.per_call(options.build / "bin" / "cost_program"), ""
    except instructions.Failed as failed:
        return None, str(failed)


def main(options):
    collectives = options.what or COLLECTIVES
    ranks = [int(count) for count in (options.ranks or "2").split(",")]
    if options.quick:
        collectives, ranks, options.sizes = ["allreduce", "broadcast", "barrier"], [2], "8-64K"
    peers, results, parts, overview = installed(options), [], [], []
    versions = {}
    for count in ranks:
        for collective in collectives:
            title = f"{collective}, {count} ranks"
            some, versions = measure(options, collective, count, peers)
            table = list(rows(some, peers))
            print(f"\n{title}")
            report.print_table(table)
            results += some
            parts += [f"<h2>{html.escape(title)}</h2>", *charts(title, some, peers), report.table(table)]
            means = [f"{report.geometric_mean([r['ratios'][peer] for r in some]):.2f}" for peer in peers]
            behind = [report.size_text(r["bytes"]) for r in some if r["ratio_to_best"] < 1]
            overview.append([title, *means, f"{min(r['ratio_to_best'] for r in some):.2f}", " ".join(behind) or "none"])
    overview = [["", *[f"{PEERS[peer][0]} / Tutti, mean" for peer in peers], "least, best peer", "slower than the best peer at"]] + overview
    meta = {"peers": {peer: versions[peer]["MPI"] for peer in peers}, "rounds": options.rounds,
            "device": versions[peers[0]].get("device"), **report.machine()}
    intro = (f"<p>{html.escape(meta['cpu'])}, {meta['cores']} cores, {html.escape(meta['system'])}, commit {meta['commit']}. Medians over "
             f"{meta['rounds']} runs of each run's median, quartiles of the runs (of one run, those within it) in brackets and as bands; both libraries alternate within a run. A ratio above 1: "
             "Tutti is faster. Means are geometric, over the sizes.</p>")
    counted, why_not = count_instructions(options)
    calls = [["8 B call, two ranks", *counted], ["instructions", *(f"{count:.0f}" for count in counted.values())]] if counted else [
        ["instructions", "not counted: " + why_not]]
    report.write(options.out, "compare", meta, results, "Tutti beside other libraries",
                 [intro, report.table(overview), "<p>Instructions of one rank's call in the steady state, by callgrind:</p>", report.table(calls),
                  *parts], instructions=counted)
    for each in (overview, calls):
        print()
        report.print_table(each)
