#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# One case of the drop-in under one MPI.
#   tests/dropin/run.py CASE MPI BUILD-DIRECTORY [RANKS]
# Each case is a function below; a part of dropin_rank that has none is run as it is, has to say that nothing failed, and
# its collectives have to have been handled.
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import mpirun  # noqa: E402: beside this folder

CASE, MPI, BUILD = sys.argv[1:4]
RANKS = int(sys.argv[4]) if len(sys.argv) > 4 else 2
OTHER = {"openmpi": "mpich", "mpich": "openmpi"}[MPI]
PROGRAM = f"{BUILD}/bin/dropin_rank_{MPI}"


def library(mpi):
    return f"{BUILD}/lib/libtutti-mpi-{mpi}.so"


def run(*command, preload=None, ranks=RANKS, **variables):
    """Exit status and what was said by `command` as a job of so many ranks, preloaded in the ranks only."""
    preload = library(MPI) if preload is None else preload
    launch = [f"mpirun.{MPI}", "-n", str(ranks)]
    if MPI == "openmpi":
        launch += ["--oversubscribe"] + (["-x", f"LD_PRELOAD={preload}"] if preload else [])
    elif preload:
        launch += ["-genv", "LD_PRELOAD", preload]
    return told(launch + list(command), 250, variables)


def told(command, seconds, variables):
    status, text = mpirun.run(command, seconds, env=mpirun.environment(**variables))
    print(text, end="")
    return status, text


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


def fortran():
    """Case 47: Fortran through each of its interfaces, all of it handled."""
    for binding in ("MPIF", "MPI", "F08"):
        status, text = run(f"{BUILD}/bin/dropin_fortran_{binding}_{MPI}", TUTTI_MPI_STATS="1")
        check(status == 0 and "fortran: 0 failures" in text, f"{binding}: status {status}")
        check(calls(text, "all calls of all ranks") == (10 * RANKS, 0), f"{binding}: not all calls were handled")
        check(calls(text, "Iallreduce") == (RANKS, 0), f"{binding}: MPI_Iallreduce was not handled")


def signals():
    """Case 56: the process does on each signal what it does without the drop-in."""
    told = [re.findall("signals:.*", run(PROGRAM, "signals", preload=preload)[1]) for preload in ("", library(MPI))]
    check(told[0] and told[0] == told[1], f"without and with: {told}")


def misspelt():
    """Case 59: a variable that there is not is told, with the one that was meant."""
    status, text = run(PROGRAM, "nothing", TUTTI_MPI_STAT="1")
    check(status == 0 and "did you mean TUTTI_MPI_STATS" in text, "no warning")


def memcheck():
    """Case 58: nothing that valgrind finds is Tutti's; what the MPI itself does it may find."""
    status, text = run("valgrind", "-q", "--error-limit=no", PROGRAM, "mixing")
    check(status == 0 and "mixing: 0 failures" in text, f"status {status}")
    frames = re.findall(r"(?:==\d+== +)(at|by) 0x[0-9A-F]+: (.*)", text)
    first = True
    for word, where in frames:
        first = first or word == "at"
        if not first or "vgpreload" in where or "libc.so" in where:
            continue
        first = False
        check("libtutti" not in where and not re.search(r"tutti::(?!test)", where), f"valgrind: {where}")


def progress_thread():
    """A progress thread of Tutti's makes no calls of the MPI's, and the program's thread still drives both."""
    status, text = run(PROGRAM, "progress", TUTTI_PROGRESS="shared", TUTTI_MPI_STATS="1")
    check(status == 0 and "progress: 0 failures" in text, f"status {status}")
    check(calls(text, "Allreduce") == (RANKS, 0), "nothing was handled")


def chain():
    """Tools of MPI's profiling interface before and after: each sees what it should, and Tutti handles the same."""
    tool = f"{BUILD}/lib/libdropin_tool_{MPI}.so"
    status, text = run(PROGRAM, "life", preload=f"{tool}:{library(MPI)}", TUTTI_MPI_STATS="1")
    check(status == 0 and "tool: 203 reductions, 3 copies" in text, "the tool before does not see all calls")
    check(calls(text, "Allreduce") == (203 * RANKS, 0), "what comes by way of a tool is not handled")
    status, text = run(PROGRAM, "life", preload=f"{library(MPI)}:{tool}", TUTTI_MPI_STATS="1")
    check(status == 0 and "tool: 0 reductions, 3 copies" in text, "the tool after sees what was handled")
    status, text = run(PROGRAM, "life", preload=f"{library(MPI)}:{tool}", TUTTI_MPI_STATS="1", TUTTI_MPI_OFF="Allreduce")
    check(status == 0 and "tool: 203 reductions, 3 copies" in text, "the tool after does not see what is passed on")
    check(calls(text, "Barrier") == (3 * RANKS, 0), "the rest is not handled")


def tutti_run():
    """tutti-run --mpi finds the library that fits the launcher; what it cannot do it says."""
    def start(*arguments):
        return told([f"{BUILD}/bin/tutti-run", "--mpi", *arguments], 200, {"TUTTI_MPI_STATS": "1"})

    status, text = start(f"mpirun.{MPI}", "-n", "2", PROGRAM, "life")
    check(status == 0 and calls(text, "Allreduce") == (406, 0), "the program was not handled")
    status, text = start("true", "-n", "2", PROGRAM)
    check(status == 126 and "names neither Open MPI nor MPICH" in text, "another launcher is taken")
    status, text = start()
    check(status == 126 and "no launcher given" in text, "no launcher is no error")


CASES = {function.__name__: function
         for function in (cannot_start, chain, fortran, memcheck, misspelt, none, off, progress_thread, refuse, signals,
                          tutti_run)}
if CASE in CASES:
    CASES[CASE]()
elif CASE.split("_")[0] in ("movement", "reductions"):
    conform()
else:
    part()
