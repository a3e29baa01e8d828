#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Breaks the library one line at a time and expects the named test to fail: a test that cannot fail is a defect.

Works on a copy of the tree, where each mutant is applied, its test built and run, and the line put back. A test that
hangs counts as failed; a mutant that does not compile, or whose line is not there any more, is an error.

usage: run.py SOURCE WORK [--all | --only NAME | --sample N | --lines]
Without --all a sample is drawn by the commit, so that every commit tries others and a run repeats. --lines only
looks whether the line of every mutant is where it says.
"""
import argparse
import hashlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

HANG_S = 60  # of a test that takes a few seconds
# As deep as the release preset's, and with its flags, and paths below the tree's root as relative ones (see main): then
# ccache finds what is equal.
BUILD = "build/release"


class Mutant:
    def __init__(self, block):
        lines = block.splitlines()
        if len(lines) != 5 or not lines[2].startswith("- ") or not lines[3].startswith("+"):
            sys.exit(f"mutants.txt: a block has five lines, this one is not understood:\n{block}")
        self.name, self.file = lines[0], lines[1]
        self.old, self.new = lines[2][2:], lines[3][2:]
        self.target, *self.arguments = lines[4].split()


def read_mutants(path):
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    return [Mutant(block.strip("\n")) for block in re.split(r"\n\s*\n", text) if block.strip()]


def sync(source, tree):
    """Copies what is new or different; what is equal keeps its time, so that little is built again."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    if listed.returncode == 0:
        files = [pathlib.Path(name) for name in listed.stdout.decode().split("\0") if name]
    else:  # not a clone: everything but what was built
        files = [path.relative_to(source) for path in source.rglob("*")
                 if path.is_file() and path.relative_to(source).parts[0] not in ("build", ".git")]
    for name in files:
        if not (source / name).is_file():
            continue
        there = tree / name
        if there.exists() and there.read_bytes() == (source / name).read_bytes():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, there)
    kept = {tree / name for name in files}
    for path in tree.rglob("*"):
        if path.is_file() and path not in kept and path.relative_to(tree).parts[0] != "build":
            path.unlink()


def build(tree, target):
    return subprocess.run(["cmake", "--build", tree / BUILD, "-j", "2", "--target", target],
                          capture_output=True, text=True)


def misplaced(tree, mutant):
    """None if the mutant's line stands once in its file, else what is wrong."""
    path = tree / mutant.file
    found = path.read_text().count(mutant.old) if path.exists() else 0
    return None if found == 1 else f"'{mutant.old}' stands {found} times in {mutant.file}: mend mutants.txt"


def try_mutant(tree, mutant):
    """None if the test fails as it must, else what is wrong."""
    if problem := misplaced(tree, mutant):
        return problem
    path = tree / mutant.file
    text = path.read_text()
    try:
        path.write_text(text.replace(mutant.old, mutant.new))
        built = build(tree, mutant.target)
        if built.returncode != 0:
            return "does not compile:\n" + built.stdout[-3000:]
        program = tree / BUILD / "bin" / mutant.target
        try:
            run = subprocess.run([program, *mutant.arguments], capture_output=True, timeout=HANG_S)
        except subprocess.TimeoutExpired:
            return None
        return None if run.returncode != 0 else f"survives: {mutant.target} passes although {mutant.file} is wrong"
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--sample", type=int, default=3)
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    options.source, options.work = options.source.resolve(), options.work.resolve()
    mutants = read_mutants(options.source / "tests" / "mutants" / "mutants.txt")
    if options.lines:
        problems = [f"{m.name}: {problem}" for m in mutants if (problem := misplaced(options.source, m))]
        print("\n".join(problems) or f"{len(mutants)} mutants are where they say")
        sys.exit(1 if problems else 0)
    if options.only:
        mutants = [mutant for mutant in mutants if mutant.name == options.only]
        if not mutants:
            sys.exit(f"there is no mutant '{options.only}'")
    elif not options.all:
        commit = subprocess.run(["git", "-C", options.source, "rev-parse", "HEAD"], capture_output=True).stdout
        seed = int.from_bytes(hashlib.sha256(commit).digest()[:8], "big")
        mutants = random.Random(seed).sample(mutants, min(options.sample, len(mutants)))

    tree = options.work / "tree"
    os.environ.update(CCACHE_BASEDIR=str(tree), CCACHE_NOHASHDIR="1")
    sync(options.source, tree)
    configured = subprocess.run(
        ["cmake", "--preset", "release"], cwd=tree, capture_output=True, text=True)
    if configured.returncode != 0:
        sys.exit("cannot configure the copy:\n" + configured.stdout + configured.stderr)
    bad = 0
    for mutant in mutants:
        start = time.monotonic()
        problem = try_mutant(tree, mutant)
        print(f"{mutant.name}: {problem or 'caught by ' + mutant.target} ({time.monotonic() - start:.0f} s)", flush=True)
        bad += problem is not None
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
