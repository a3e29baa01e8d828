# SPDX-License-Identifier: BSD-3-Clause
# What scenarios share. Sourced in the guest.
set -eu -o pipefail

# say TEXT: a line between the outputs of programs.
say() { echo "--- $*"; }

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# needs FILE: a program that must have been built.
needs() { [ -x "$1" ] || fail "$1 is missing: build it first (or say --device-only to test without it)"; }

# soft_roce [INTERFACE]: rxe0 on a network interface, with an ACTIVE port.
soft_roce() {
  rdma link add rxe0 type rxe netdev "${1:-eth0}"
  # The kernel fills the GID table from a work queue.
  for _ in $(seq 100); do
    grep -qs "RoCE v2" /sys/class/infiniband/rxe0/ports/1/gid_attrs/types/1 && break
    sleep 0.05
  done
  grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state || fail "rxe0 is not ACTIVE"
}

# pair SERVER... -- CLIENT...: both must succeed. The client is started again until the server listens.
pair() {
  local server=() tries=0
  while [ "$1" != -- ]; do
    server+=("$1")
    shift
  done
  shift
  "${server[@]}" > /tmp/server.log 2>&1 &
  local pid=$!
  until "$@" > /tmp/client.log 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 50 ]; then
      cat /tmp/server.log /tmp/client.log
      fail "$*"
    fi
    sleep 0.1
  done
  wait $pid || fail "${server[*]}: $(cat /tmp/server.log)"
  tail -n 1 /tmp/client.log
}

# refused TEXT COMMAND...: must fail, and say TEXT in one line on stderr.
refused() {
  local text=$1
  shift
  if "$@" > /dev/null 2> /tmp/refused.log; then fail "passed, but must not: $*"; fi
  cat /tmp/refused.log
  grep -qF "$text" /tmp/refused.log || fail "does not say '$text': $*"
  [ "$(wc -l < /tmp/refused.log)" = 1 ] || fail "more than one line: $*"
}
