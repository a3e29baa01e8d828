#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# reference.sh FOLDER: makes the reference of the public headers there, without a warning, and looks whether every function
# of the C interface is in it.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v doxygen > /dev/null || { echo "doxygen is missing: scripts/setup installs it"; exit 1; }
mkdir -p "$1"
{ cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $1"; } | doxygen -
status=0
while read -r function; do
  grep -q "$function" "$1/html/tutti_8h.html" || { echo "$function is not in the reference"; status=1; }
done < <(grep -oE '^TUTTI_API [a-z_ *]*tutti_[a-z_]+\(' include/tutti/tutti.h | grep -oE 'tutti_[a-z_]+\($' | tr -d '(')
exit $status
