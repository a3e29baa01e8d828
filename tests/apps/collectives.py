# SPDX-License-Identifier: BSD-3-Clause
#
# An mpi4py program: MPI reached through a module that Python loads. Prints what all ranks agree on; says nothing of the
# order in which floats were added.
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
report = []

report.append(world.allreduce(rank + 1))
report.append(world.bcast({"from": 0, "text": "x" * 5000} if rank == 0 else None)["from"])
report.append(world.allgather("r%d" % rank))
report.append(world.alltoall([rank * 10 + other for other in range(ranks)])[0] == rank)
report.append(world.scatter([[i] * i for i in range(ranks)] if rank == 0 else None) == [rank] * rank)

data = numpy.arange(100000, dtype="d") + rank
total = numpy.empty_like(data)
world.Allreduce(data, total)
report.append(float(total.sum()))
world.Allreduce(MPI.IN_PLACE, data, op=MPI.MAX)
report.append(float(data[-1]))

counts = [i + 1 for i in range(ranks)]
part = numpy.full(rank + 1, rank, dtype="i")
whole = numpy.empty(sum(counts), dtype="i")
world.Allgatherv(part, (whole, counts))
report.append(whole.tolist())

# A column of a matrix, into a row of another.
matrix = numpy.arange(36, dtype="i").reshape(6, 6) * (rank == 0)
column = MPI.INT.Create_vector(6, 1, 6).Commit()
if rank == 0:
    world.Bcast([matrix, 1, column])
else:
    row = numpy.zeros(6, dtype="i")
    world.Bcast([row, 6, MPI.INT])
    assert row.tolist() == [0, 6, 12, 18, 24, 30], row
column.Free()

# An operator in Python that does not commute, and a reduction of objects.
def last(a, b, datatype):
    numpy.frombuffer(b, dtype="i")[:] = 3 * numpy.frombuffer(a, dtype="i") + numpy.frombuffer(b, dtype="i")
operator = MPI.Op.Create(last, commute=False)
mine, result = numpy.array([rank + 1] * 4, dtype="i"), numpy.zeros(4, dtype="i")
world.Reduce(mine, result, op=operator, root=ranks - 1)
report.append(world.bcast(result.tolist(), root=ranks - 1) if ranks == 2 else None)
operator.Free()

# Requests of all kinds in one list.
half = world.Split(rank % 2, rank)
got = numpy.zeros(1, dtype="i")
started = numpy.array([1], dtype="i")
requests = [world.Irecv(got, (rank + 1) % ranks, 7), world.Ibarrier(), half.Iallreduce(MPI.IN_PLACE, started),
            world.Isend(numpy.array([rank], dtype="i"), (rank - 1) % ranks, 7)]
MPI.Request.Waitall(requests)
report.append((int(got[0]) == (rank + 1) % ranks, world.allreduce(int(started[0]))))
half.Free()

if rank == 0:
    print("report:", report)
