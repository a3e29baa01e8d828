#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the commands that documents show: each line of a fenced block that opens with "```sh checked", as it stands, with
# the build's programs in PATH and an empty folder around it. Whatever a reader may paste has to work.
#   tests/tidy/commands.py --programs build/release/bin [FILE...]     without names: every document
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy

LIMIT_S = 120  # ends what hangs; the slowest takes some seconds on two cores


def commands(tree, name):
    """(line number, command) of every checked block; a line that ends in a backslash goes on in the next."""
    inside, start, words = False, 0, ""
    for number, line in tree.lines(name):
        fence = re.match(r"\s*```(.*)", line)
        if fence:
            inside = not inside and fence[1].split() == ["sh", "checked"]
            continue
        if not inside or not line.strip():
            continue
        start, words = (start, words) if words else (number, "")
        words += line.strip()
        if words.endswith("\\"):
            words = words[:-1]
            continue
        yield start, words
        words = ""


def environment(programs):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    kept["PATH"] = os.path.abspath(programs) + os.pathsep + kept["PATH"]
    # A reader with enough cores, who is not root, needs none of this.
    kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_rmaps_base_oversubscribe="1")
    return kept


def run(tree, name, programs):
    """Findings, and how many commands there were."""
    findings, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number, command in commands(tree, name):
            count += 1
            try:
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment(programs),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, timeout=LIMIT_S)
                said, status = done.stdout, done.returncode
            except subprocess.TimeoutExpired as expired:
                said, status = (expired.stdout or b"").decode(errors="replace"), f"none after {LIMIT_S} s"
            if status != 0:
                findings.append(f"{name}:{number}: '{command}' ends with status {status}:\n{said}")
    return findings, count


def main():
    parser = argparse.ArgumentParser(description="Runs the commands that documents show.")
    parser.add_argument("--programs", required=True, help="folder of the built programs")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    tree = tidy.Tree(os.path.normpath(arguments.root))
    total, failed = 0, []
    for name in arguments.files or tree.documents():
        findings, count = run(tree, name, arguments.programs)
        total += count
        failed += findings
    print("\n".join(failed) if failed else f"{total} commands of documents work")
    # None at all means that the marks are gone, and nothing is checked any more.
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
