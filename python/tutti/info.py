# SPDX-License-Identifier: BSD-3-Clause
"""python -m tutti.info: which library the package uses, devices and why each is usable or not, and settings."""
from __future__ import annotations

import argparse
import json
import os
import sys

from . import _library, _place
from ._comm import describe


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tutti.info", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    facts = {
        "package": {"version": _place.VERSION, "path": os.path.dirname(os.path.abspath(__file__))},
        "library": {"version": _library.VERSION, "path": _library.PATH},
        "python": sys.version.split()[0],
        "topology": describe("topology"),
        "devices": describe("devices"),
        "tuning": describe("tuning"),
        "config": describe("config"),
    }
    if arguments.json:
        print(json.dumps(facts, indent=1))
        return 0
    print(f"package  {facts['package']['version']} in {facts['package']['path']}")
    print(f"library  {facts['library']['version']}, {facts['library']['path']}")
    print(f"python   {facts['python']}")
    print("machine  " + facts["topology"]["text"].strip().replace("\n", "\n         "))
    print("devices")
    for device in facts["devices"]:
        print(f"  {device['name']} ({device['kind']}): {'usable' if device['usable'] else 'not usable'}, "
              f"{device['reason']}")
    print(f"tuning   {facts['tuning']['file'] or 'no file'}: {facts['tuning']['state']}")
    print("settings of the environment")
    for each in facts["config"]:
        if each["name"] in os.environ:
            print(f"  {each['name']}={each['value']} (default {each['default']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
