# SPDX-License-Identifier: BSD-3-Clause
# What scenarios share. Sourced in the guest.
#
# They find VM_BUILD (the build's folder), VM_RESULTS (a folder whose files stay in build/vm/NAME.results), VM_LONG (1 with
# --long), VM_GUESTS and VM_GUEST (how many guests there are, and which this is).
set -eu -o pipefail
vm=$(dirname "${BASH_SOURCE[0]}")
bin=$VM_BUILD/bin

# say TEXT: a line between the outputs of programs, with the seconds since the scenario began.
say() { echo "--- $* ($SECONDS s)"; }

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# needs PROGRAM...: programs of the build.
needs() {
  local program
  for program in "$@"; do
    [ -x "$bin/$program" ] || fail "$bin/$program is missing: build it first"
  done
}

# until_true SECONDS COMMAND...: asks until the command succeeds; fails with its last words if it never does.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" > /tmp/until.log 2>&1; do
    [ $SECONDS -lt $end ] || fail "never succeeds: $*: $(tail -n 1 /tmp/until.log)"
    sleep 0.1
  done
}

# Before a scenario starts: the way between two guests, if there are two.
prepare_guest() {
  [ "$VM_GUESTS" -gt 1 ] || return 0
  mkdir -m 700 /tmp/ssh /run/sshd
  cp /tmp/results/{host,user}{,.pub} /tmp/ssh
  chmod 600 /tmp/ssh/host /tmp/ssh/user
  echo "guests $(cat /tmp/ssh/host.pub)" > /tmp/ssh/known_hosts
  # sshd is unpacked, not installed: what its installation adds to the system is added here. The user of the host who is
  # root may have a home whose start-up files say or do something.
  { grep -vE '^(sshd|root):' /etc/passwd; echo "root:x:0:0::/tmp:/bin/bash"; echo "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"; } > /tmp/ssh/passwd
  printf 'root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n' > /tmp/ssh/shadow
  mount --bind /tmp/ssh/passwd /etc/passwd
  mount --bind /tmp/ssh/shadow /etc/shadow
  LD_LIBRARY_PATH=$(echo "$VM_SSHD"/usr/lib/*-linux-gnu) "$VM_SSHD/usr/sbin/sshd" -f /dev/null \
    -h /tmp/ssh/host -o AuthorizedKeysFile=/tmp/ssh/user.pub -o StrictModes=no -o UsePAM=no -o UseDNS=no \
    -o PermitRootLogin=yes || fail "sshd does not start"
  [ "$VM_GUEST" = 2 ] || until_true 60 "$vm/on" guest2 true
}

# on2 COMMAND...: in the second guest, where these functions are known, too.
on2() { "$vm/on" guest2 ". $vm/guest.sh; ${*@Q}"; }

# mpirun_both PROGRAM...: two ranks in each guest; TUTTI_ variables go along.
mpirun_both() {
  local name given=()
  for name in ${!TUTTI_@}; do given+=(-x "$name"); done
  mpirun -n 4 --host guest1:2,guest2:2 --mca plm_rsh_agent "$vm/on" --mca oob_tcp_if_include eth0 \
    --mca btl_tcp_if_include eth0 "${given[@]}" "$@" < /dev/null
}

# tcp_both RANKS ADDRESS PROGRAM...: without MPI, by torchrun's variables: the first half of the ranks in this guest, the
# others in the second; rank 0 meets them at ADDRESS.
tcp_both() {
  local total=$1 address=$2 rank name given=() where started=() status=0
  shift 2
  for name in ${!TUTTI_@}; do given+=("$name=${!name}"); done
  given+=(WORLD_SIZE="$total" MASTER_ADDR="$address" MASTER_PORT=29500)
  for ((rank = 0; rank < total; rank++)); do
    where=on2
    [ $rank -ge $((total / 2)) ] || where=
    $where env "${given[@]}" RANK=$rank "$@" &
    started+=($!)
  done
  # All of them: each rank of a job that fails has a limit of its own.
  for rank in "${started[@]}"; do wait "$rank" || status=$?; done
  return $status
}

# soft_roce [INTERFACE [DEVICE]]: a soft-RoCE device, with an ACTIVE port, on a network interface.
soft_roce() {
  local device=${2:-rxe0}
  rdma link add "$device" type rxe netdev "${1:-eth0}"
  # The kernel fills the GID table from a work queue.
  until_true 60 grep -qs "RoCE v2" "/sys/class/infiniband/$device/ports/1/gid_attrs/types/"*
  grep -q ACTIVE "/sys/class/infiniband/$device/ports/1/state" || fail "$device is not ACTIVE"
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
    if [ $tries -gt 300 ]; then
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

# ranks_refuse RANKS TEXT COMMAND...: as refused, for a job: a line from each rank at most, and all say TEXT.
ranks_refuse() {
  local ranks=$1 text=$2
  shift 2
  if "$@" > /dev/null 2> /tmp/refused.log; then fail "passed, but must not: $*"; fi
  sed -i '/^tutti-run: /d' /tmp/refused.log # says which rank ended first
  head -n 1 /tmp/refused.log
  ! grep -vF "$text" /tmp/refused.log || fail "does not say '$text': $*"
  [[ $(wc -l < /tmp/refused.log) -gt 0 && $(wc -l < /tmp/refused.log) -le $ranks ]] ||
    fail "not a line from each rank: $(cat /tmp/refused.log)"
}

# says TEXT COMMAND...: must succeed, print TEXT on stdout, and nothing on stderr. The output is in /tmp/said.log.
says() {
  local text=$1
  shift
  if ! "$@" > /tmp/said.log 2> /tmp/said.err; then
    cat /tmp/said.log /tmp/said.err
    fail "$*"
  fi
  if [ -s /tmp/said.err ]; then
    cat /tmp/said.err
    fail "not silent: $*"
  fi
  if ! grep -qF -- "$text" /tmp/said.log; then
    cat /tmp/said.log
    fail "does not say '$text': $*"
  fi
}
