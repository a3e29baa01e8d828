# SPDX-License-Identifier: BSD-3-Clause
"""Collectives beside those of Open MPI and MPICH, and beside what the machine allows, by number of ranks and size."""
import html
import json
import os
import pathlib
import sys
import tempfile

import mpirun
import report

PEERS = {"openmpi": ("Open MPI", "tutti-perf"), "mpich": ("MPICH", "tutti-perf-mpich")}
COLLECTIVES = ["allreduce", "broadcast", "reduce", "reduce_scatter_block", "allgather", "alltoall", "barrier"]
WITH_LIMIT = ("allreduce", "broadcast", "barrier")


def perf(options, peer, collective, ranks, limit, checked):
    """The results of one run of tutti-perf beside one MPI."""
    program = options.build / "bin" / PEERS[peer][1]
    smallest, largest = options.sizes.split("-")
    start = [f"mpirun.{peer}", "-n", str(ranks)]
    crowded = ranks > (os.cpu_count() or 1)
    if peer == "openmpi":
        start += ["--oversubscribe"] if crowded else ["--bind-to", "core"]
    elif not crowded:
        start += ["-bind-to", "core"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = start + [str(program), collective, "-b", smallest, "-e", largest, "-c", str(int(checked)), "--vs", "mpi",
                           "--json", str(out)] + (["--vs", "limit"] if limit else [])
        status, said = mpirun.run(command, None, env=mpirun.environment())
        if status != 0:
            sys.exit(f"{said}\ncompare: {' '.join(command)} ended with status {status}")
        return json.loads(out.read_text())


def installed(options):
    found = [peer for peer, (_, program) in PEERS.items() if (options.build / "bin" / program).exists()]
    if not found:
        sys.exit(f"compare: there is no tutti-perf in {options.build / 'bin'}: build it (cmake --build --preset release)")
    return found


def measure(options, collective, ranks, peers):
    """One result for each size."""
    points, versions = {}, {}
    for peer in peers:
        perf(options, peer, collective, ranks, False, True)  # right values first, and warm
        for _ in range(options.rounds):
            run = perf(options, peer, collective, ranks, collective in WITH_LIMIT and ranks == 2, False)
            versions[peer] = run["meta"]
            for row in run["results"]:
                point = points.setdefault(row["bytes"], {"tutti": [], "limit": [], **{name: [] for name in peers}})
                point["tutti"].append(row["time_us"])
                point[peer].append(row["peer_us"])
                if row.get("limit_us"):
                    point["limit"].append(row["limit_us"])
    results = []
    for size, point in sorted(points.items()):
        times = {peer: report.summary(point[peer]) for peer in peers}
        ours = report.summary(point["tutti"])
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
    sizes = [max(1, r["bytes"]) for r in results]
    if len(sizes) < 2:
        return []
    series = {"Tutti": [r["tutti_us"]["median"] for r in results],
              **{PEERS[peer][0]: [r["peers_us"][peer]["median"] for r in results] for peer in peers}}
    if any(r["limit_us"] for r in results):
        series["limit"] = [r["limit_us"] for r in results]
    return [report.chart(f"{title}: time", sizes, series, dashed=("limit",))]


def main(options):
    collectives = options.what or COLLECTIVES
    ranks = [int(count) for count in options.ranks.split(",")]
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
    meta = {"peers": {peer: versions[peer].get("mpi") for peer in peers}, "rounds": options.rounds,
            "device": versions[peers[0]].get("device"), **report.machine()}
    intro = (f"<p>{html.escape(meta['cpu'])}, {meta['cores']} cores, {html.escape(meta['system'])}, commit {meta['commit']}. Medians over "
             f"{meta['rounds']} runs of each run's median, quartiles of the runs in brackets; both libraries alternate within a run. A ratio above 1: "
             "Tutti is faster. Means are geometric, over the sizes.</p>")
    report.write(options.out, "compare", meta, results, "Tutti beside other libraries", [intro, report.table(overview), *parts])
    print()
    report.print_table(overview)
