#!/usr/bin/env bash
# Builds the image and runs it, then compose.yaml, in a Docker of its own. It needs root on Debian or one of its kin, npm, and
# no registry of images: the base images are made of Debian's packages and npm's Node. Docker and its containers live in
# namespaces of their own, which end with this script, however it ends. Only what takes long to make is kept, in
# CONTAINERS_FOLDER; remove that folder to make it again.
#   npm run containers               everything but the next two
#   npm run containers -- --quick    the image, compose up, one quote
#   npm run containers -- --limits   the image under two memory limits
#   --if-possible                    where no Docker can be started, one line says why, and nothing fails
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)/containers
work=${CONTAINERS_FOLDER:-/var/tmp/quotegate-containers}
checks=all
if_possible=
for flag in "$@"; do
  case "$flag" in
    --quick | --limits) checks=${flag#--} ;;
    --if-possible) if_possible=1 ;;
    *) printf 'unknown flag: %s (--quick, --limits, --if-possible)\n' "$flag" >&2 && exit 2 ;;
  esac
done

cannot() {
  printf 'containers: not run, because %s\n' "$*" >&2
  [ -n "$if_possible" ] && exit 0
  exit 1
}
unshare --mount --pid --net --fork true 2>/dev/null || cannot 'only root on Linux can start a Docker, and not everywhere'
mkdir -p "$work"
exec 9>"$work/lock"
flock --nonblock 9 || { printf 'waiting for another run of this script\n' && flock 9; }
bash "$scripts/bases.sh" "$work" >"$work/bases.log" 2>&1 || cannot "the bases could not be made: see $work/bases.log"

setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
  bash "$scripts/inside.sh" build "$checks" "$work" "${scripts%/scripts/containers}" 9>&- &
namespaces=$!
end() {
  # The first process of a process namespace takes all others with it, and they the mounts and the network.
  kill -KILL "$namespaces" 2>/dev/null && wait "$namespaces" 2>/dev/null || true
  # What is ending still holds its control groups.
  for _ in $(seq 50); do
    find /sys/fs/cgroup -depth -type d -path '*/quotegate-containers*' -exec rmdir {} + 2>/dev/null && break
    sleep 0.1
  done
}
trap end EXIT
trap 'exit 130' INT TERM HUP
status=0
wait "$namespaces" || status=$?
[ "$status" -ne 75 ] || cannot "Docker did not start: see $work/dockerd.log"
exit "$status"
