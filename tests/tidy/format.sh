#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Every source is as clang-format-14 writes it: tests/tidy/format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=(--dry-run -Werror)
[[ ${1:-} != --fix ]] || mode=(-i)
if git rev-parse --git-dir >/dev/null 2>&1; then list=(git ls-files -co --exclude-standard)
else list=(find . -type f -not -path './build/*'); fi
"${list[@]}" | grep -E '\.(cc|h|hpp|c)$' | while read -r file; do [[ ! -f $file ]] || echo "$file"; done |
  xargs -r -P "$(nproc)" -n 20 clang-format-14 "${mode[@]}"
