#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/vm/run where something is wrong: it ends in time with a status that is not zero, its last line on stderr says why, and
what helps to find out is in its folder. test_run.py CACHE: a folder with what run fetched, to be used as it is."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LOST = 125


def processes(folder):
    """The QEMUs of this folder's machines, by process id."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if command.startswith(b"qemu-system") and os.fsencode(folder) in command:
            found.add(entry.parent.name)
    return found


class Broken(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="test-run-", dir=CACHE.parent))
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.check_nothing_left)

    def check_nothing_left(self):
        self.assertEqual(set(), processes(self.folder), "a machine still runs")
        self.assertEqual([], list(self.folder.glob("run-*")), "a share is left")

    def use_cache(self):
        (self.folder / "cache").symlink_to(CACHE)

    def path_without(self, *names):
        """A PATH that has all programs but these."""
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        for place in reversed(os.environ["PATH"].split(":")):
            for program in pathlib.Path(place).glob("*"):
                link = bin_folder / program.name
                link.unlink(missing_ok=True)
                link.symlink_to(program)
        for name in names:
            (bin_folder / name).unlink(missing_ok=True)
        return bin_folder

    def run_it(self, *words, limit=300, path=None, wrapper=()):
        started = time.monotonic()
        environment = dict(os.environ, **({"PATH": str(path)} if path else {}))
        done = subprocess.run([*wrapper, str(HERE / "run"), *words, "--folder", str(self.folder), "--accel", "tcg"],
                              capture_output=True, text=True, env=environment, timeout=limit + 60)
        self.assertLess(time.monotonic() - started, limit + 30)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def assert_lost(self, done, *texts):
        self.assertEqual(LOST, done.returncode, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tests/vm: ")]
        self.assertEqual(lines, done.stderr.splitlines()[-1:], done.stderr)
        for text in texts:
            self.assertIn(text, lines[0])

    def test_without_qemu(self):
        self.use_cache()
        self.assert_lost(self.run_it("smoke", path=self.path_without("qemu-system-x86_64")),
                         "qemu-system-x86_64 is missing: install the package qemu-system-x86")

    def test_without_a_kernel_package(self):
        bin_folder = self.path_without("apt-cache")
        (bin_folder / "apt-cache").write_text("#!/bin/sh\nexit 0\n")
        (bin_folder / "apt-cache").chmod(0o755)
        self.assert_lost(self.run_it("smoke", path=bin_folder), "apt knows no package linux-image-amd64",
                         "run 'apt-get update'")

    def test_a_kernel_package_that_cannot_be_fetched(self):
        bin_folder = self.path_without("apt-cache", "apt-get")
        (bin_folder / "apt-cache").write_text("#!/bin/sh\necho '  Depends: linux-image-0-amd64'\n")
        (bin_folder / "apt-get").write_text("#!/bin/sh\necho 'E: no route to the archive' >&2\nexit 100\n")
        for name in ("apt-cache", "apt-get"):
            (bin_folder / name).chmod(0o755)
        self.assert_lost(self.run_it("smoke", path=bin_folder), "linux-image-0-amd64 failed: E: no route to the archive")

    def test_an_archive_that_never_answers(self):
        bin_folder = self.path_without("apt-cache")
        (bin_folder / "apt-cache").write_text("#!/bin/sh\nexec sleep 1000\n")
        (bin_folder / "apt-cache").chmod(0o755)
        self.assert_lost(self.run_it("smoke", "--timeout", "2", limit=2, path=bin_folder),
                         "the limit passed before a machine was started")

    def test_what_is_fetched_already_is_not_fetched_again(self):
        self.use_cache()
        done = self.run_it("--fetch", path=self.path_without("apt-get", "apt-cache"))
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))

    def test_fetching_without_a_kernel_package(self):
        self.assert_lost(self.run_it("--fetch", path=self.path_without("apt-get", "apt-cache")), "apt")

    def test_no_disk_space(self):
        # A mount of its own, in a user namespace where this is not root.
        self.use_cache()
        wrapper = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "bash", "-c",
                   'mount -t tmpfs -o size=4M none "$0" && ln -s "$1" "$0/cache" && shift && exec "$@"',
                   str(self.folder), str(CACHE)]
        self.assert_lost(self.run_it("smoke", wrapper=wrapper), "no disk space", " MB left")

    def test_a_guest_that_panics(self):
        self.use_cache()
        done = self.run_it("smoke", "--append", "rdinit=/none root=/none")
        self.assert_lost(done, "the guest ended before it could start the scenario", "smoke.console.log")
        self.assertIn("Kernel panic", (self.folder / "smoke.console.log").read_text(errors="replace"))

    def test_a_guest_that_never_boots(self):
        self.use_cache()
        for limit in (8, 40, 200):  # until it suffices for the console's first lines
            done = self.run_it("smoke", "--timeout", str(limit), "--append", "rdinit=/none root=/none panic=0", limit=limit)
            self.assert_lost(done, f"the guest did not boot within {limit} s", "smoke.console.log")
            console = (self.folder / "smoke.console.log").read_text(errors="replace").splitlines()
            if len(console) > 1:
                break
        self.assertGreater(len(console), 1, "the limit was too short for the first line of the console")
        # How far the kernel came by then depends on what else the machine does; the line that it was writing may be in part.
        self.assertIn("console.log: " + console[-2], done.stdout, "the console's end is shown")

    def test_a_scenario_that_hangs(self):
        self.use_cache()
        for limit in (30, 100, 300):  # until a guest boots within it
            done = self.run_it(str(HERE / "broken" / "hangs"), "--timeout", str(limit), limit=limit)
            if "and now nothing more" in done.stdout:
                break
        self.assert_lost(done, f"stopped at its limit of {limit} s", "hangs.console.log")
        self.assertIn("and now nothing more", done.stdout)
        self.assertEqual("and now nothing more\n", (self.folder / "hangs.output.log").read_text())
        self.assertEqual("kept\n", (self.folder / "hangs.results" / "file").read_text())

    def test_a_scenario_that_fails(self):
        self.use_cache()
        done = self.run_it(str(HERE / "broken" / "fails"), "some", "words")
        self.assertEqual(7, done.returncode, done.stdout + done.stderr)
        self.assertIn("fails: FAILED with status 7", done.stdout)
        self.assertEqual("results of some words\n", (self.folder / "fails.results" / "file").read_text())

    def test_a_scenario_that_does_not_exist(self):
        self.assert_lost(self.run_it("smok"), "there is no scenario smok: there are", "smoke")

    def test_killed(self):
        self.use_cache()
        running = subprocess.Popen([str(HERE / "run"), str(HERE / "broken" / "hangs"), "--folder", str(self.folder)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while not processes(self.folder):
            self.assertLess(time.monotonic(), end, "no machine was started")
            time.sleep(0.05)
        running.kill()
        running.wait()
        while processes(self.folder):
            self.assertLess(time.monotonic(), end, "the machine outlives its starter")
            time.sleep(0.05)
        # What SIGKILL left goes with the next run.
        self.assertNotEqual([], list(self.folder.glob("run-*")))
        self.run_it("smoke", path=self.path_without("qemu-system-x86_64"))


if __name__ == "__main__":
    if os.environ.get("WITHOUT_VM") == "1":
        print("left out, as --without-vm asks")
        sys.exit(77)
    CACHE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
