#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""speed_report.py FOLDER JSON ROUNDS: the figures that the scenario `speed` left in FOLDER, as ratios beside their targets.
speed_report.py --has-figures FOLDER NAME: whether perftest printed the figure there that is used.

Prints a table and writes JSON. Fails where a figure is missing or a result was wrong, never for how fast something was.
"""
import json
import math
import pathlib
import re
import statistics
import sys

MIB = 1 << 20


def tutti(folder, collective, size, round_number):
    """Microseconds of one call."""
    (row,) = json.loads((folder / f"{collective}.{size}.{round_number}.json").read_text())["results"]
    if row["wrong"]:
        raise ValueError(f"{collective} of {size} bytes: {row['wrong']} wrong values")
    return row["time_us"]


def figures(path):
    """The columns of perftest's one line of figures: size, iterations, then numbers; None where there is no such line."""
    rows = [line.split() for line in path.read_text().splitlines() if re.match(r"\s*\d+\s+\d+\s+\S+\s+\S+", line)]
    try:
        (row,) = [[float(column) for column in row] for row in rows]
    except ValueError:
        return None
    return row if all(map(math.isfinite, row)) else None


# Which column is used of NAME.ROUND.txt: "t_typical[usec]", "MsgRate[Mpps]", else "BW average[MiB/sec]" (printed as MB/sec).
COLUMN = {"send_lat": 4, "send_bw": 4}


def figure(folder, name):
    """None where there is none, or 0, as perftest's clock gives it when the guest was stopped meanwhile."""
    row = figures(folder / f"{name}.txt")
    column = COLUMN.get(name.partition(".")[0], 3)
    return row[column] if row is not None and len(row) > column and row[column] > 0 else None


def perftest(folder, name):
    value = figure(folder, name)
    if value is None:
        raise ValueError(f"{name}: no figure in what perftest printed")
    return value


def bare(folder, size, round_number):
    return statistics.median(map(float, (folder / f"bare.{size}.{round_number}.txt").read_text().split()))


def rounds():
    return range(1, int(sys.argv[3]) + 1)


def over_rounds(value):
    """The median over the rounds, of figures or of ratios taken within a round."""
    return statistics.median(value(round_number) for round_number in rounds())


def versus_limits(folder):
    mib_per_s = lambda name, r: perftest(folder, f"{name}.{r}")
    us_per_mib = lambda name, r: 1e6 / mib_per_s(name, r)
    allreduce = lambda size, r: tutti(folder, "allreduce", size, r)
    broadcast = lambda r: tutti(folder, "broadcast", MIB, r)
    # Two ranks exchange half of the bytes twice, or all of them once: as many bytes in each direction as there are.
    bound = lambda r: 2 * us_per_mib("write_both", r)
    yield {"what": "allreduce 8 B / bare exchange of 8 B", "unit": "us", "ours": over_rounds(lambda r: allreduce(8, r)),
           "limit": over_rounds(lambda r: bare(folder, 8, r)),
           "ratio": over_rounds(lambda r: allreduce(8, r) / bare(folder, 8, r)), "target": "<= 1.15"}
    yield {"what": "allreduce 8 B / bare exchange of 40 B", "unit": "us", "ours": over_rounds(lambda r: allreduce(8, r)),
           "limit": over_rounds(lambda r: bare(folder, 40, r)),
           "ratio": over_rounds(lambda r: allreduce(8, r) / bare(folder, 40, r)), "target": "-"}
    yield {"what": "allreduce 8 B / ib_send_lat 8 B", "unit": "us", "ours": over_rounds(lambda r: allreduce(8, r)),
           "limit": over_rounds(lambda r: perftest(folder, f"send_lat.{r}")),
           "ratio": over_rounds(lambda r: allreduce(8, r) / perftest(folder, f"send_lat.{r}")), "target": "-"}
    yield {"what": "broadcast 1 MiB / ib_write_bw", "unit": "MiB/s", "ours": over_rounds(lambda r: 1e6 / broadcast(r)),
           "limit": over_rounds(lambda r: mib_per_s("write_bw", r)),
           "ratio": over_rounds(lambda r: us_per_mib("write_bw", r) / broadcast(r)), "target": ">= 0.9"}
    yield {"what": "broadcast 1 MiB / ib_read_bw", "unit": "MiB/s", "ours": over_rounds(lambda r: 1e6 / broadcast(r)),
           "limit": over_rounds(lambda r: mib_per_s("read_bw", r)),
           "ratio": over_rounds(lambda r: us_per_mib("read_bw", r) / broadcast(r)), "target": "-"}
    yield {"what": "allreduce 1 MiB / half of ib_write_bw -b", "unit": "MiB/s",
           "ours": over_rounds(lambda r: 1e6 / allreduce(MIB, r)), "limit": over_rounds(lambda r: 1e6 / bound(r)),
           "ratio": over_rounds(lambda r: bound(r) / allreduce(MIB, r)), "target": ">= 0.75"}


def device_alone_us(folder, collective, size):
    """What the device needs by itself for a message of that many bytes, or for an exchange of two: start-up and bytes."""
    if collective == "allreduce":
        return over_rounds(lambda r: bare(folder, 8, r) + 2 * size / (perftest(folder, f"write_both.{r}") * 1.048576))
    return over_rounds(lambda r: 1 / perftest(folder, f"send_bw.{r}")) + over_rounds(
        lambda r: size / (perftest(folder, f"write_bw.{r}") * 1.048576))


def versus_mpi(folder):
    for collective in ("allreduce", "broadcast"):
        rows = json.loads((folder / f"{collective}.mpi.json").read_text())["results"]
        if not rows or any(row["wrong"] for row in rows):
            raise ValueError(f"{collective} beside Open MPI: wrong values, or none")
        for row in rows:
            yield {"what": f"{collective} {row['bytes']} B: Open MPI over TCP / ours", "unit": "us",
                   "ours": row["time_us"], "limit": row["peer_us"], "ratio": row["ratio"], "target": ">= 2",
                   "device_alone": row["peer_us"] / device_alone_us(folder, collective, row["bytes"])}


def reached(row):
    relation, _, bound = row["target"].partition(" ")
    return None if not bound else row["ratio"] <= float(bound) if relation == "<=" else row["ratio"] >= float(bound)


def main():
    if sys.argv[1] == "--has-figures":
        sys.exit(0 if figure(pathlib.Path(sys.argv[2]), sys.argv[3]) is not None else 1)
    folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rows = [*versus_limits(folder), *versus_mpi(folder)]
    print(f"{'':48} {'ours':>10} {'beside':>10}       {'ratio':>6}  {'target':8}")
    for row in rows:
        row["reached"] = reached(row)
        verdict = {None: "", True: "reached", False: "not reached"}[row["reached"]]
        if "device_alone" in row:  # perftest's own figures in our place: what no library can exceed
            verdict += f" (the device alone: {row['device_alone']:.2f})"
        print(f"{row['what']:48} {row['ours']:10.1f} {row['limit']:10.1f} {row['unit']:5} {row['ratio']:6.2f}  "
              f"{row['target']:8} {verdict}")
    target.write_text(json.dumps({"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
