#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# docs/CONFIG.md is what the library says of its variables: config_fresh.sh TUTTI-INFO
set -euo pipefail
cd "$(dirname "$0")/../.."
# What the user's shell has set must not show in the document.
env -i PATH="$PATH" "$1" --markdown | diff -u docs/CONFIG.md - ||
  { echo "docs/CONFIG.md is stale: run build/release/bin/tutti-info --markdown > docs/CONFIG.md"; exit 1; }
