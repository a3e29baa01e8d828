#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# Of the files named on stdin, those that build/release compiles; for a header, the source of its name, else one beside it.
import json
import os
import sys

root = sys.argv[1]
with open(os.path.join(root, "build/release/compile_commands.json"), encoding="utf-8") as file:
    known = {os.path.relpath(entry["file"], root) for entry in json.load(file)}
wanted = set()
for name in sys.stdin.read().split():
    if name in known:
        wanted.add(name)
    elif name.endswith((".h", ".hpp")):
        beside = {other for other in known if os.path.dirname(other) == os.path.dirname(name)}
        same = {other for other in beside if os.path.splitext(other)[0] == os.path.splitext(name)[0]}
        wanted |= same or set(sorted(beside)[:1])
print("\n".join(sorted(wanted)))
