# SPDX-License-Identifier: BSD-3-Clause
"""Runs an MPI's own launcher so that no rank is left: it is told to end when its time is over, or when this process has
ended in any way, and ends its ranks then."""
import ctypes
import os
import signal
import subprocess


def environment(**more):
    # What this user has tuned counts where somebody asks for it.
    return dict({"TUTTI_TUNING": "off", **os.environ}, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)


def run(command, seconds, **options):
    """(status, what was said). subprocess.TimeoutExpired if it takes longer."""
    end_with_parent = lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          preexec_fn=end_with_parent, **options) as job:
        try:
            said, _ = job.communicate(timeout=seconds)
        except BaseException:
            job.terminate()
            try:
                job.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                job.kill()
            raise
    return job.returncode, said
