#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# One case of the drop-in under one MPI.
#   tests/dropin/run.py CASE MPI BUILD-DIRECTORY [RANKS]
# Each case is a function below; a part of dropin_rank that has none is run as it is, has to say that nothing failed, and
# its collectives have to have been handled.
import os
import re
import subprocess
import sys

CASE, MPI, BUILD = sys.argv[1:4]
RANKS = int(sys.argv[4]) if len(sys.argv) > 4 else 2
OTHER = {"openmpi": "mpich", "mpich": "openmpi"}[MPI]
PROGRAM = f"{BUILD}/bin/dropin_rank_{MPI}"


def library(mpi):
    return f"{BUILD}/lib/libtutti-mpi-{mpi}.so"


def run(*command, preload=None, ranks=RANKS, **variables):
    """Exit status and what was said by `command` as a job of so many ranks, preloaded in the ranks only."""
    preload = library(MPI) if preload is None else preload
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
    launch = [f"mpirun.{MPI}", "-n", str(ranks)]
    if MPI == "openmpi":
        launch += ["--oversubscribe"] + (["-x", f"LD_PRELOAD={preload}"] if preload else [])
    elif preload:
        launch += ["-genv", "LD_PRELOAD", preload]
    done = subprocess.run(launch + list(command), env=environment, text=True, errors="replace", timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="")
    return done.returncode, done.stdout


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def calls(text, function):
    """How many calls of a function were handled and passed on."""
    found = re.search(rf"tutti-mpi: {function}: (\d+) handled, (\d+) passed on", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def part():
    status, text = run(PROGRAM, CASE, TUTTI_MPI_STATS="1")
    check(status == 0, f"{CASE} ended with status {status}")
    check(f"{CASE}: 0 failures" in text, "it does not say that nothing failed")
    handled, passed_on = calls(text, "all calls of all ranks")
    check(handled > 0, "nothing was handled")
    return handled, passed_on


def conform():
    _, passed_on = part()
    check(passed_on == 0, f"{passed_on} calls were passed on that Tutti should take")


def refuse():
    """The build for the other MPI ends the program with a line that says which one to take."""
    status, text = run(PROGRAM, "nothing", preload=library(OTHER))
    check(status != 0, "it ran with the build for the other MPI")
    check(f"preload libtutti-mpi-{MPI}.so instead" in text, "it does not say what to do")


def off():
    """TUTTI_MPI_OFF passes on what it names, and says what it does not know."""
    status, text = run(PROGRAM, "life", TUTTI_MPI_STATS="1", TUTTI_MPI_OFF="MPI_Barrier,Alreduce")
    check(status == 0, f"status {status}")
    check(calls(text, "Barrier") == (0, 3 * RANKS), "barriers were not passed on")
    check("switched off by TUTTI_MPI_OFF" in text, "the reason is not told")
    check(calls(text, "Allreduce")[0] > 0, "the rest was not handled")
    check("TUTTI_MPI_OFF names 'Alreduce'" in text, "a name that there is not makes no warning")


def none():
    """Zero handled is a warning; some handled, and nothing is said."""
    status, text = run(PROGRAM, "nothing")
    check(status == 0 and "no collective call was handled by Tutti: the program made none" in text, "no warning")
    status, text = run(PROGRAM, "life", TUTTI_MPI_OFF="all")
    check(status == 0 and "no collective call was handled by Tutti: all were passed on" in text, "no warning")
    status, text = run(PROGRAM, "life")
    check(status == 0 and "tutti" not in text, "something is said though nobody asked")


def cannot_start():
    """Tutti that cannot start leaves the program to the MPI, and says why."""
    status, text = run(PROGRAM, "life", TUTTI_EAGER_BYTES="many")
    check(status == 0, f"the program ended with {status}")
    check("Tutti could not start" in text and "TUTTI_EAGER_BYTES=many is not accepted" in text, "no reason is told")


CASES = {"refuse": refuse, "off": off, "none": none, "cannot_start": cannot_start}
if CASE in CASES:
    CASES[CASE]()
elif CASE.split("_")[0] in ("movement", "reductions"):
    conform()
else:
    part()
