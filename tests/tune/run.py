#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# tutti-tune as people run it, and programs that find what it wrote. What is faster is nobody's business here: where a
# test needs a choice that differs from the table's, it writes the row itself.
#   run.py CASE FOLDER-OF-PROGRAMS [LIAR]
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAMS = sys.argv[2]
QUICK = ["-b", "8", "-e", "64", "-f", "8", "-t", "1"]


def program(name):
    return os.path.join(PROGRAMS, name)


def run(ranks, words, launcher="mpirun", **environment):
    env = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **environment}
    start = {"mpirun": ["mpirun", "--oversubscribe", "-n", str(ranks)], "tutti-run": [program("tutti-run"), "-n", str(ranks)],
             "": []}[launcher]
    # A hang is a failure of this case, and mpirun takes its ranks along when it is asked to end.
    done = subprocess.run(["timeout", "--kill-after=10", "200", *start, *words], capture_output=True, text=True, env=env,
                          stdin=subprocess.DEVNULL)
    print(done.stdout, done.stderr, f"exit status {done.returncode}", sep="\n")
    return done


def tune(ranks, *words, **more):
    return run(ranks, [program("tutti-tune"), *words], **more)


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def rows(done):
    return [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]


def read(file):
    with open(file, encoding="ascii") as opened:
        return opened.read()


def write(file, text):
    with open(file, "w", encoding="ascii") as opened:
        opened.write(text)


def algorithm(ranks, collective, size, **more):
    """What tutti-perf says the library took."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out.json")
        done = run(ranks, [program("tutti-perf"), collective, "-b", size, "-e", size, "-n", "4", "--json", file], **more)
        expect(done.returncode == 0, "tutti-perf runs")
        expect(("# tuning: " in done.stdout) is ("TUTTI_TUNING" in more and more["TUTTI_TUNING"] != "off" and
                                                 "holds nothing" not in done.stderr), "rows that are used are told")
        return json.loads(read(file))["results"][0]["algorithm"], done.stderr


def per_core(done):
    return re.search(r"(\d+) per core", done.stdout)[1]


def case_used(folder):
    for ranks, launcher in ((2, "mpirun"), (3, "tutti-run")):
        file = os.path.join(folder, f"tuning{ranks}")
        done = tune(ranks, "allreduce", "barrier", *QUICK, "-o", file, launcher=launcher)
        expect(done.returncode == 0 and done.stderr == "", "it ends well, and silently where there is no terminal")
        expect([row[:2] for row in rows(done)] == [["allreduce", "8"], ["allreduce", "64"], ["barrier", "0"]],
               "a line for each size")
        text = read(file)
        # Whatever it found faster is what a program takes.
        for name, first, choice in re.findall(r"^(\w+) ranks=.* bytes=(\d+)-\w+ (\S+)", text, re.M):
            size = "0" if name == "barrier" else str(max(int(first), 4))
            expect(algorithm(ranks, name, size, launcher=launcher, TUTTI_TUNING=file)[0] == choice, f"{name} has {choice}")
        # And a choice that no table would make.
        machine = re.search(r"^machine .*", text, re.M)[0]
        head = f"tutti-tuning 1\n{machine}\nallreduce ranks={ranks} ranks/core={per_core(done)} hosts=1 bytes=0-1000 "
        write(file, head + "circulant:radix=3\n")
        for size, chosen in (("64", True), ("2K", False)):
            expect((algorithm(ranks, "allreduce", size, launcher=launcher, TUTTI_TUNING=file)[0] == "circulant:radix=3")
                   is chosen, f"{size} bytes: tuned is {chosen}")
        expect(algorithm(ranks, "allreduce", "64", TUTTI_TUNING="off")[0] != "circulant:radix=3", "off is off")
        expect(algorithm(ranks, "allreduce", "64", TUTTI_TUNING=file, TUTTI_ALGO="allreduce:ring")[0] == "ring",
               "TUTTI_ALGO wins")
        info = run(1, [program("tutti-info")], launcher="", TUTTI_TUNING=file).stdout
        expect(f"{file}: read at start-up" in info and f"* {machine[8:]}: 1 row\n" in info, "tutti-info shows it")
        write(file, head.replace("AMD", "XYZ").replace(machine, machine + "!") + "circulant:radix=3\n")
        choice, said = algorithm(ranks, "allreduce", "64", TUTTI_TUNING=file)
        expect(choice != "circulant:radix=3" and said.count("holds nothing for this machine") == 1, "another machine's")
        write(file, head + "nonsense\n")
        done = run(ranks, [program("tutti-perf"), "allreduce", "-e", "8"], launcher=launcher, TUTTI_TUNING=file)
        expect(done.returncode != 0 and f"{file}:3: allreduce has no algorithm 'nonsense'" in done.stderr, "a broken row")
        info = run(1, [program("tutti-info")], launcher="", TUTTI_TUNING=file).stdout
        expect("has no algorithm 'nonsense'" in info.replace("\n", " ").replace("      ", ""), "tutti-info says so, too")


def case_kept(folder):
    file = os.path.join(folder, "tuning")
    done = tune(2, "allreduce", *QUICK, "-o", file)
    machine = re.search(r"^machine .*", read(file), re.M)[0]
    kept = f"allreduce ranks=2 ranks/core={per_core(done)} hosts=1 bytes=0-9 ring  # by hand"
    write(file, f"tutti-tuning 1\n{machine}\n{kept}\nmachine elsewhere\nsomething\n")
    done = tune(2, "barrier", "-t", "1", "-o", file)
    expect(done.returncode == 0 and kept in read(file) and "machine elsewhere\nsomething\n" in read(file),
           "what was not measured stays")
    before = read(file)
    done = tune(2, "allreduce", *QUICK, "-o", file, "--dry-run")
    expect(done.returncode == 0 and read(file) == before and "nothing is written" in done.stdout, "--dry-run writes nothing")
    done = tune(2, "allreduce", *QUICK, "-o", file)
    expect(done.returncode == 0 and "by hand" not in read(file), "what was measured is replaced")
    expect(os.listdir(folder) == ["tuning"], "and nothing is left over")


def case_places(folder):
    named, config = os.path.join(folder, "named"), os.path.join(folder, "config")
    place = os.path.join(config, "tutti", "tuning")
    done = tune(2, "barrier", "-t", "1", XDG_CONFIG_HOME=config)
    expect(done.returncode == 0 and os.path.exists(place), "the usual place, folders and all")
    expect(f"# written to {place}" in done.stdout, "which is told")
    done = tune(2, "barrier", "-t", "1", XDG_CONFIG_HOME=config, TUTTI_TUNING=named)
    expect(done.returncode == 0 and os.path.exists(named), "what TUTTI_TUNING names, though it is not there yet")
    done = tune(2, "barrier", "-t", "1", XDG_CONFIG_HOME="", HOME="")
    expect(done.returncode == 2 and done.stderr.count("name a file with -o") == 1, "no home")
    done = tune(2, "barrier", "-t", "1", "--dry-run", XDG_CONFIG_HOME="", HOME="")
    expect(done.returncode == 0, "which --dry-run needs not")


def case_usage(folder):
    done = tune(2, "telepathy")
    expect(done.returncode == 2 and done.stderr.count("there is no collective 'telepathy'") == 1, "said once, by one rank")
    done = tune(1, "-o", os.path.join(folder, "one"), launcher="tutti-run")
    expect(done.returncode == 2 and "one rank has nothing to choose between" in done.stderr, "one rank")
    broken = os.path.join(folder, "broken")
    write(broken, "garbage\n")
    for file, text in ((broken, "broken:1: a tuning file begins with"), ("/proc/tuning", "cannot write /proc/tuning")):
        done = tune(2, "barrier", "-o", file)
        expect(done.returncode == 3 and done.stderr.count(text) == 1, "the file's fault, said once")
        expect(not rows(done), "before measuring")
    expect(read(broken) == "garbage\n", "it is left alone")


def case_ranks_differ(folder):
    tune(2, "barrier", "-t", "1", "-o", os.path.join(folder, "0"))
    text = read(os.path.join(folder, "0"))
    machine = re.search(r"^machine .*", text, re.M)[0]
    row = "barrier ranks=2 ranks/core=1 hosts=1 bytes=0-any dissemination:radix="
    for rank in (0, 1):
        write(os.path.join(folder, str(rank)), f"tutti-tuning 1\n{machine}\n{row}{2 + 2 * rank}\n")
        os.makedirs(os.path.join(folder, f"config{rank}", "tutti"))
        write(os.path.join(folder, f"config{rank}", "tutti", "tuning"), read(os.path.join(folder, str(rank))))
    perf = f"exec {program('tutti-perf')} barrier -n 4"
    done = run(2, ["sh", "-c", f"TUTTI_TUNING={folder}/$RANK {perf}"], launcher="tutti-run")
    expect(done.returncode != 0 and "rank 1 has other tuned rows than rank 0" in done.stderr, "an error names the rank")
    done = run(2, ["sh", "-c", f"XDG_CONFIG_HOME={folder}/config$RANK {perf}"], launcher="tutti-run")
    expect(done.returncode == 0 and done.stderr.count("rank 1 has other tuned rows than rank 0") == 1, "or one warning")


def case_wrong(folder):
    file = os.path.join(folder, "tuning")
    done = tune(3, "allreduce", "-b", "1K", "-e", "1K", "-t", "1", "-o", file, LD_PRELOAD=sys.argv[3], LIAR_RANK="2",
                LIAR_CALL="3")
    expect(done.returncode == 3 and done.stderr.count("gave 1 wrong elements in vectors of 1024 bytes") == 1,
           "one wrong bit on one rank is seen, and said once")
    expect(not os.path.exists(file), "nothing is written")


with tempfile.TemporaryDirectory() as place_of_files:
    globals()["case_" + sys.argv[1]](place_of_files)
