# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by the other scripts: the tree's root as working directory, the number of build jobs, and mpirun as it is
# needed here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

jobs=${JOBS:-$(nproc)}

# What one copy of the tree has compiled, another need not: paths below its root count as relative ones.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# What this user has tuned is not what is tested.
export TUTTI_TUNING=off

# mpirun refuses root unless told twice; a laptop or a CI machine has fewer cores than ranks.
if [[ $(id -u) == 0 ]]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

# build PRESET [TARGET...]: quiet when all is well, and only what changed.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" >"/tmp/tutti-configure.$$" 2>&1 ||
    { cat "/tmp/tutti-configure.$$" >&2; rm -f "/tmp/tutti-configure.$$"; die "configuring preset $preset failed"; }
  rm -f "/tmp/tutti-configure.$$"
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}
