#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# A real program, first without and then with the drop-in: it has to say the same, and its collectives to have been handled.
#   tests/apps/run.py APP MPI BUILD-DIRECTORY WORK-DIRECTORY
# An app is a function below that runs it once and returns what has to be equal; its packages are in scripts/packages.txt.
import glob
import os
import re
import shutil
import subprocess
import sys
import time

APP, MPI = sys.argv[1:3]
BUILD, WORK = map(os.path.abspath, sys.argv[3:5])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import mpirun  # noqa: E402: beside this folder

# With more ranks than cores, MPICH's own waits take their time.
LIMIT = 1200


def launch(preload, ranks, *command):
    """What `ranks` ranks of a command say."""
    start = [f"{BUILD}/bin/tutti-run", "--mpi"] if preload else []
    start += [f"mpirun.{MPI}", "-n", str(ranks)] + (["--oversubscribe"] if MPI == "openmpi" else [])
    return mpirun.run(start + list(command), LIMIT, cwd=WORK, env=mpirun.environment(
        OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TUTTI_MPI_STATS="1"))[1]


def lines(text, pattern):
    return [line.strip() for line in text.splitlines() if re.search(pattern, line)]


def hpcc(preload):
    """HPC Challenge, small: its own checks of every part."""
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt", encoding="utf-8") as file:
        setting = file.read().splitlines()
    for line, value in ((5, "120 Ns"), (7, "16 NBs"), (10, "1 Ps"), (11, "2 Qs")):
        setting[line] = value
    with open(f"{WORK}/hpccinf.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(setting) + "\n")
    output = f"{WORK}/hpccoutf.txt"
    if os.path.exists(output):
        os.remove(output)
    text = launch(preload, 2, "hpcc")
    with open(output, encoding="utf-8") as file:
        result = file.read()
    verdicts = lines(result, r"^Success=|_Failure|RandomAccess_(CheckTime|Errors)=|Errors=|FAILED")
    # A transposition that takes no measurable time of a CPU has no line for that.
    verdicts.append(len(lines(result, "^(?!CPU).*PASSED")))
    assert "Success=1" in verdicts, result
    return [verdict for verdict in verdicts if "Time" not in str(verdict)], text


def mpi4py(preload):
    """Python, whose module of MPI is loaded late."""
    text = launch(preload, 2, "/usr/bin/python3", f"{HERE}/collectives.py")
    return lines(text, "^report:"), text


def lammps(preload):
    """A melt: what the thermostat tells of each step."""
    text = launch(preload, 2, "lmp", "-in", f"{HERE}/melt.in", "-log", "none")
    return lines(text, r"^\s+\d+ +[-\d.]+ +[-\d.]+ +[-\d.]+ "), text


def scalapack(preload, *programs):
    for pattern in ("", "BLACS/", "PBLAS/"):
        for file in glob.glob(f"/usr/share/scalapack/{pattern}*.dat"):
            shutil.copy(file, WORK)
    folder = f"/usr/lib/x86_64-linux-gnu/scalapack/{MPI}-tests"
    told, verdicts = "", []
    for program in programs:
        text = launch(preload, 4, f"{folder}/{program}")
        told += text
        # Whether the BLACS sum in the same order again is up to who comes first, without the drop-in, too.
        text = re.sub(".*REPEATABLE SUM TEST.*", "", text)
        verdicts += [(program, verdict, len(lines(text, rf"\b{verdict}\b"))) for verdict in ("PASSED", "FAILED")]
        verdicts += lines(text, r"TESTS; +\d+ PASSED|tests completed|tests were|[Nn]o failures")
    return verdicts, told


def pblas(preload):
    """PBLAS, level 1 to 3 in double precision."""
    return scalapack(preload, *(["PBLAS/dpb1tst", "PBLAS/dpb2tst", "PBLAS/dpb3tst"] if MPI == "openmpi"
                                else ["PBLAS/dpb1tst"]))


def lu(preload):
    """ScaLAPACK's LU and QR factorization and inverses. Not xdllt: without the drop-in it hangs in Open MPI now and then."""
    return scalapack(preload, *(["xdlu", "xdqr", "xdinv"] if MPI == "openmpi" else ["xdinv"]))


def blacs(preload):
    """BLACS, from C and Fortran; both end by an abort, so nothing counts their calls."""
    return scalapack(preload, "xCbtest", "xFbtest")


def netpipe(preload):
    """NetPIPE's check of what arrives: messages of the MPI's own beside Tutti."""
    text = launch(preload, 2, "NPopenmpi", "-i", "-u", "65536")
    return len(lines(text, "Integrity check passed|ntegrity")), text


def fftw(preload):
    """FFTW over MPI, by a driver of ours."""
    program = f"{WORK}/fftw"
    subprocess.run([f"mpicc.{MPI}", "-O1", f"{HERE}/fftw.c", "-o", program, "-lfftw3_mpi", "-lfftw3", "-lm"], check=True)
    text = launch(preload, 3, program)
    assert "right" in text and "WRONG" not in text, text
    return lines(text, "^fftw:"), text


APPS = {"fftw": fftw, "hpcc": hpcc, "mpi4py": mpi4py, "lammps": lammps, "pblas": pblas, "lu": lu, "blacs": blacs, "netpipe": netpipe}
UNCOUNTED = ("blacs",)


def timed(preload):
    began = time.monotonic()
    result, text = APPS[APP](preload)
    return result, text, time.monotonic() - began


os.makedirs(WORK, exist_ok=True)
without, bare, before = timed(False)
within, text, after = timed(True)
print("\n".join(lines(text, "^tutti-mpi: ")))
print(f"{APP}: {before:.1f} s without, {after:.1f} s with the drop-in")
if not without:
    sys.exit(f"FAILED: the program says nothing without the drop-in:\n{bare}")
if within != without:
    sys.exit(f"FAILED: without: {without}\nwith: {within}\n{text}")
handled = re.search(r"all calls of all ranks: (\d+) handled", text)
if APP not in UNCOUNTED and (handled is None or int(handled[1]) == 0):
    sys.exit(f"FAILED: nothing was handled\n{text}")
