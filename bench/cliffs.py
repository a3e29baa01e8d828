# SPDX-License-Identifier: BSD-3-Clause
"""What a curve of times over sizes should not do, and where it does. Of figures only: nothing is measured here.

A table of times is {(collective, ranks): {bytes: microseconds}}. Three things are looked for:

- cliff: a size that takes more than twice as long as the next smaller and the next larger one;
- order: a size that takes longer than a larger one;
- consistency: a collective that takes longer than others that would do its work (Träff, Gropp and Thakur, "Self-consistent
  MPI performance guidelines", IEEE TPDS 21(5), 2010).

The latter two allow for noise: times count as different if their ratio is more than `noise`.
"""
import dataclasses

CLIFF = 2.0
NOISE = 1.25
SMALL = 8  # bytes of the allreduce that a barrier is compared with

# What should be no slower, and what does at least the same work at the same size. reduce+broadcast is measured as such: in a
# batch of calls a broadcast alone waits for nobody, so the sum of the two alone would be too small.
GUIDELINES = [("allreduce", "reduce+broadcast"), ("reduce", "allreduce"), ("broadcast", "allreduce"), ("gather", "allgather"),
              ("allgather", "alltoall"), ("scatter", "alltoall")]


@dataclasses.dataclass(frozen=True)
class Finding:
    kind: str  # cliff, order or consistency
    collective: str
    ranks: int
    bytes: int
    us: float
    beside_us: float  # what it is compared with
    beside: tuple  # (collective, bytes)

    @property
    def ratio(self):
        return self.us / self.beside_us

    def key(self):
        return self.kind, self.collective, self.ranks, self.bytes


def cliffs(collective, ranks, times):
    sizes = sorted(times)
    for before, size, after in zip(sizes, sizes[1:], sizes[2:]):
        slower = max(before, after, key=times.get)
        if times[size] > CLIFF * times[slower]:
            yield Finding("cliff", collective, ranks, size, times[size], times[slower], (collective, slower))


def order(collective, ranks, times, noise=NOISE):
    """Each size that is slower than a larger one, beside the fastest of those."""
    fastest = None
    found = []
    for size in sorted(times, reverse=True):
        if fastest is not None and times[size] > noise * times[fastest]:
            found.append(Finding("order", collective, ranks, size, times[size], times[fastest], (collective, fastest)))
        if fastest is None or times[size] <= times[fastest]:
            fastest = size
    return reversed(found)


def consistency(table, noise=NOISE):
    for (collective, ranks), times in sorted(table.items()):
        pairs = [(size, other, size) for name, other in GUIDELINES if name == collective for size in sorted(times)]
        if collective == "barrier":
            pairs = [(size, "allreduce", SMALL) for size in times]
        for size, other, beside in pairs:
            time = table.get((other, ranks), {}).get(beside)
            if time is not None and times[size] > noise * time:
                yield Finding("consistency", collective, ranks, size, times[size], time, (other, beside))


def findings(table, noise=NOISE):
    """All of them, the worst of each kind first."""
    found = list(consistency(table, noise))
    for (collective, ranks), times in sorted(table.items()):
        found += [*cliffs(collective, ranks, times), *order(collective, ranks, times, noise)]
    kinds = ["cliff", "order", "consistency"]
    return sorted(found, key=lambda each: (kinds.index(each.kind), -each.ratio))


def concerned(found, table):
    """Of which points a second look decides about the findings: those themselves, what they are compared with, and neighbours."""
    points = {}
    for each in found:
        sizes = sorted(table[each.collective, each.ranks])
        at = sizes.index(each.bytes)
        near = sizes[max(0, at - 1):at + 2] if each.kind == "cliff" else [each.bytes]
        points.setdefault((each.collective, each.ranks), set()).update(near)
        points.setdefault((each.beside[0], each.ranks), set()).add(each.beside[1])
    return points


def groups(found):
    """The findings of one kind and curve together, the worst of each first; cliffs one by one."""
    grouped = {}
    for each in found:
        grouped.setdefault(each.key() if each.kind == "cliff" else each.key()[:3] + each.beside[:1], []).append(each)
    return list(grouped.values())
