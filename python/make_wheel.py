#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes a wheel of the built package and its library, with the system's setuptools and nothing from the network. It is for
# this interpreter and machines with the same system libraries. The target `wheel` calls it.
import argparse
import os
import shutil
import sys
import tempfile

import setuptools


class Platform(setuptools.Distribution):
    """A wheel for one platform: there is a library in it, though setuptools has not compiled it."""

    def has_ext_modules(self):
        return True


def main():
    parser = argparse.ArgumentParser(description="Makes a wheel of the built package and its library.")
    for option in ("package", "place", "library", "name", "version", "out"):
        parser.add_argument("--" + option, required=True)
    arguments = parser.parse_args()
    out = os.path.abspath(arguments.out)
    shutil.rmtree(out, ignore_errors=True)  # of other versions
    with tempfile.TemporaryDirectory() as stage:
        inside = os.path.join(stage, "tutti")
        shutil.copytree(arguments.package, inside, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(arguments.place, os.path.join(inside, "_place.py"))
        shutil.copy(os.path.realpath(arguments.library), os.path.join(inside, arguments.name))
        os.chdir(stage)
        setuptools.setup(
            name="tutti", version=arguments.version, description="Collective communication over RDMA verbs",
            license="BSD-3-Clause", packages=setuptools.find_packages(stage), distclass=Platform,
            package_data={"": ["*.so*", "py.typed"]}, python_requires=">=3.11", zip_safe=False,
            extras_require={"numpy": ["numpy"]},
            script_args=["-q", "bdist_wheel", "--dist-dir", out])
    print("\n".join(os.path.join(out, name) for name in sorted(os.listdir(out)) if name.endswith(".whl")))


if __name__ == "__main__":
    sys.exit(main())
