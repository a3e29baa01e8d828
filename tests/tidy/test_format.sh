#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# format.sh accepts a tree in order and refuses a seeded fault.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tests/tidy"
cp "$here/format.sh" "$tree/tests/tidy/"
cp "$here/../../.clang-format" "$tree/"
printf 'int a = 1;\n' >"$tree/a.cc"
"$tree/tests/tidy/format.sh" || { echo "refuses what is in order"; exit 1; }
printf 'int   a=1 ;\n' >"$tree/a.cc"
if "$tree/tests/tidy/format.sh" 2>/dev/null; then echo "accepts what is not in order"; exit 1; fi
"$tree/tests/tidy/format.sh" --fix
[[ $(cat "$tree/a.cc") == 'int a = 1;' ]] || { echo "--fix does not fix"; exit 1; }
