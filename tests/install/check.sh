#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Tutti as others get it: installs into the build tree and works from there only.
#   check.sh STEP BUILD-DIRECTORY WORK-DIRECTORY
set -euo pipefail
step=$1 build=$2 work=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
prefix=$work/prefix
if [[ $(id -u) == 0 ]]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
unset LD_LIBRARY_PATH

fail() { echo "FAILED: $*"; exit 1; }
library_folder() { dirname "$(find "$prefix" -name libtutti.so -print -quit)"; }
use_pkg_config() { PKG_CONFIG_PATH=$(library_folder)/pkgconfig pkg-config "$@"; }

step_install() {
  rm -rf "$work"
  mkdir -p "$work"
  # Into one prefix, then moved: nothing that was installed may know where it was put at first.
  cmake --install "$build" --prefix "$work/elsewhere" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
  mv "$work/elsewhere" "$prefix"
  for file in include/tutti/{tutti.h,tutti.hpp,elements.hpp,error.hpp,operators.hpp,request.hpp,bootstrap_mpi.h} bin/tutti-perf bin/tutti-info bin/tutti-tune; do
    [[ -f $prefix/$file ]] || fail "$file is not installed"
  done
  local library
  library=$(library_folder)/libtutti.so
  [[ -L $library && -f $library ]] || fail "libtutti.so is no link to the versioned library"
  readelf -d "$library" | grep -Eq 'SONAME.*libtutti\.so\.[0-9]+\.[0-9]+\]' || fail "no soversion"
  ! grep -rIl "$source" "$prefix" || fail "installed texts name the source tree"
}

# Nothing but the C interface is visible, and all of it is.
step_symbols() {
  local library seen declared
  library=$(library_folder)/libtutti.so
  seen=$(nm -D --defined-only "$library" | awk '{sub(/@.*/, "", $3); print $3}' | sort)
  declared=$(tr '\n' ' ' <"$source/include/tutti/tutti.h" | grep -oE 'TUTTI_API [^;(]*\(' | grep -oE 'tutti_\w+\($' |
    tr -d '(' | sort)
  diff <(echo "$declared") <(echo "$seen") || fail "exported symbols (right) are not those declared (left)"
  ! nm -D --undefined-only "$library" | grep -w 'ibv_.*' || fail "libibverbs must be loaded at run time only"
  # The drop-in: MPI's functions, each under both names, and nothing else (case 58).
  for library in "$(library_folder)"/libtutti-mpi-*.so; do
    seen=$(nm -D --defined-only "$library" | awk '{sub(/@.*/, "", $3); print $3}' | sort)
    ! grep -vE '^P?MPIX?_' <<<"$seen" || fail "$library exports more than MPI's functions"
    diff <(grep -E '^MPI' <<<"$seen") <(grep -E '^PMPI' <<<"$seen" | sed 's/^P//') ||
      fail "$library has one of the names of a function only"
    readelf -d "$library" | grep -q 'RUNPATH.*\[\$ORIGIN\]' || fail "$library does not find libtutti beside it"
  done
}

# Each header compiles alone, in its language and strictly.
step_headers() {
  local strict="-Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -I$prefix/include" header
  # MPI's own headers are not ours to be strict with.
  local mpi
  mpi=$(pkg-config --cflags mpi-c | sed 's/-I/-isystem /g')
  for header in tutti.h bootstrap_mpi.h; do
    echo "#include <tutti/$header>" >"$work/alone.c"
    cc -std=c11 $strict $mpi "$work/alone.c" || fail "$header is not C11"
    echo "#include <tutti/$header>" >"$work/alone.cc"
    c++ -std=c++20 -DOMPI_SKIP_MPICXX $strict $mpi "$work/alone.cc" || fail "$header is not C++20"
  done
  printf '#include <tutti/tutti.hpp>\n#include <tutti/tutti.hpp>\n' >"$work/alone.cc"
  c++ -std=c++20 $strict "$work/alone.cc" || fail "tutti.hpp is not C++20"
  if command -v clang++ >/dev/null; then
    clang++ -std=c++20 $strict "$work/alone.cc" || fail "tutti.hpp is not C++20 for clang"
  fi
}

step_cmake() {
  cmake -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
  cmake --build "$work/examples"
  # An older or newer interface than asked for is not taken silently.
  mkdir -p "$work/version"
  sed 's/find_package(Tutti [0-9.]*/find_package(Tutti 99.0/' "$source/examples/CMakeLists.txt" >"$work/version/CMakeLists.txt"
  cp "$source"/examples/*.c* "$work/version/"
  if cmake -S "$work/version" -B "$work/version/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/version.log" 2>&1; then
    fail "version 99 was found"
  fi
  grep -q 'version "99.0"' "$work/version.log" || { cat "$work/version.log"; fail "other error"; }
}

step_pkgconfig() {
  local flags
  [[ $(use_pkg_config --modversion tutti) == $("$prefix/bin/tutti-perf" --version | grep -oE '[0-9.]+') ]] ||
    fail "tutti.pc and tutti-perf differ in version"
  flags="$(use_pkg_config --cflags --libs tutti) -Wl,-rpath,$(library_folder)"
  c++ -std=c++20 "$source/examples/allreduce.cc" -o "$work/allreduce" $flags
  cc -std=c11 "$source/examples/allreduce_mpi.c" -o "$work/allreduce_mpi" $flags $(pkg-config --cflags --libs mpi-c)
}

expect_output() {
  local wanted=$1 seen
  shift
  seen=$("$@") || fail "$* ended with status $?"
  [[ $seen == "$wanted" ]] || fail "$* said '$seen' instead of '$wanted'"
}

step_run_mpi() {
  local program
  for program in "$work/examples/allreduce_mpi" "$work/allreduce_mpi"; do
    expect_output 'sum over 2 ranks: 1 3 5' mpirun --oversubscribe -n 2 "$program"
    # The same program on the drop-in, which is beside tutti-run and the library.
    expect_output 'sum over 2 ranks: 1 3 5' "$prefix/bin/tutti-run" --mpi mpirun --oversubscribe -n 2 "$program"
  done
  # The installed programs find their library by themselves.
  mpirun --oversubscribe -n 2 "$prefix/bin/tutti-perf" allreduce -e 1K -f 4 >"$work/perf.log" ||
    { cat "$work/perf.log"; fail "the installed tutti-perf does not run"; }
  "$prefix/bin/tutti-info" >"$work/info.log" || { cat "$work/info.log"; fail "the installed tutti-info does not run"; }
}

step_run_without_mpi() {
  local program
  for program in "$work/examples/allreduce" "$work/allreduce"; do
    expect_output 'sum over 1 ranks: 1 1 1; the root says 42' "$program"
    expect_output 'sum over 2 ranks: 3 3 3; the root says 42' "$prefix/bin/tutti-run" -n 2 "$program"
  done
}

# The Python package from its prefix, which was moved, and as a wheel in a folder of its own: each with its own library.
step_python() {
  local package python=$4 sum='import numpy, tutti, sys
with tutti.init() as world: print(world.allreduce(numpy.arange(3)).tolist(), tutti._library.PATH, file=sys.stderr)'
  package=$(dirname "$(find "$prefix" -path '*/tutti/_place.py' -print -quit)")
  PYTHONPATH=$(dirname "$package") "$python" -c "$sum" 2>"$work/python.log" || { cat "$work/python.log"; fail "the installed package"; }
  grep -Fq "[0, 1, 2] $(library_folder)/" "$work/python.log" || { cat "$work/python.log"; fail "not the installed library"; }
  cmake --build "$build" --target wheel >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log"; fail "no wheel"; }
  "$python" -m pip install -q --root-user-action=ignore --no-deps --no-index --no-cache-dir --target "$work/wheel" \
    "$build"/python/dist/*.whl || fail "the wheel does not install"
  PYTHONPATH=$work/wheel "$python" -c "$sum" 2>"$work/python.log" || { cat "$work/python.log"; fail "the package of the wheel"; }
  grep -Fq "[0, 1, 2] $work/wheel/tutti/" "$work/python.log" || { cat "$work/python.log"; fail "not the wheel's library"; }
  PYTHONPATH=$work/wheel "$prefix/bin/tutti-run" -n 2 "$python" "$source/examples/ddp.py" --steps 3 >"$work/ddp.log" 2>&1 ||
    { cat "$work/ddp.log"; fail "the example for PyTorch does not run from the wheel"; }
}

"step_$step" "$@"
