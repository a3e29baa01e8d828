#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Two hosts as far as networks go: two network namespaces joined by a veth pair, each with Debian's line "127.0.1.1 its
# own name" in /etc/hosts (case 28). Ranks meet across, and each is reached at its address on the common network.
#   two_hosts.sh MEETING_PROGRAM MP_RANK
set -eu

if [[ ${1:-} != --inside ]]; then
  own=(-m -n)
  [[ $(id -u) -eq 0 ]] || own+=(-r)
  exec unshare "${own[@]}" "$0" --inside "$@"
fi
meeting=$2 mp_rank=$3
work=$(mktemp -d)
ip link set lo up
unshare -n sleep 600 &
holder=$!
trap 'kill "$holder"; rm -rf "$work"' EXIT
until [[ $(readlink "/proc/$holder/ns/net") != $(readlink /proc/self/ns/net) ]]; do sleep 0.01; done
ip link add veth-a type veth peer name veth-b netns "$holder"
ip address add 10.77.0.1/24 dev veth-a
ip link set veth-a up
nsenter -t "$holder" -n sh -c 'ip link set lo up; ip address add 10.77.0.2/24 dev veth-b; ip link set veth-b up'
printf '127.0.0.1 localhost\n127.0.1.1 node-a\n10.77.0.2 node-b\n' > "$work/hosts.a"
printf '127.0.0.1 localhost\n127.0.1.1 node-b\n10.77.0.1 node-a\n' > "$work/hosts.b"

# on a|b COMMAND...: there, with that host's /etc/hosts.
on() {
  local place=()
  [[ $1 == b ]] && place=(nsenter -t "$holder" -n)
  "${place[@]}" unshare -m sh -c 'mount --bind "$1" /etc/hosts; shift; exec "$@"' sh "$work/hosts.$1" "${@:2}"
}

# run NAME STATUS COMMAND...: ranks 0 and 1 on host a, 2 and 3 on host b; each has to end with that status.
run() {
  local name=$1 expected=$2 pids=() rank status
  for rank in 0 1 2 3; do
    RANK=$rank WORLD_SIZE=4 MASTER_ADDR=node-a MASTER_PORT=29500 TUTTI_JOB_KEY='a key for tests only' TUTTI_LOG=info \
      TUTTI_INIT_TIMEOUT=20 on "$([[ $rank -lt 2 ]] && echo a || echo b)" "${@:3}" > "$work/$name.$rank" 2>&1 &
    pids+=($!)
  done
  for rank in 0 1 2 3; do
    status=0
    wait "${pids[rank]}" || status=$?
    [[ $status -eq $expected ]] || { cat "$work/$name".*; echo "$name: rank $rank ended with $status"; exit 1; }
  done
}

# says NAME RANK TEXT
says() {
  grep -qF -- "$3" "$work/$1.$2" || { cat "$work/$1".*; echo "$1: rank $2 does not say: $3"; exit 1; }
}

run meeting 0 "$meeting"
for rank in 0 1 2 3; do
  says meeting "$rank" "rank $rank of 4 met"
  says meeting "$rank" "rank $rank of 4 is reached at 10.77.0.$((rank / 2 + 1))"
done

# Without a network of queue pairs between them there is no world, and every rank says so, whom it concerns and why.
run world 4 "$mp_rank" loop 1
for rank in 0 1 2 3; do
  says world "$rank" "survivor device"
  says world "$rank" "have no ports that reach each other"
done
