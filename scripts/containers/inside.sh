# Builds with the network of the machine, so that npm and Debian are reached; runs with one of its own, where every port is
# free and nothing else is reached.
set -euo pipefail
checks=$1
began=$(date +%s)
say() { printf '\n== %3d s  %s\n' $(($(date +%s) - began)) "$*"; }

start_docker() {
  dockerd --data-root /kept/docker --exec-root /run/docker --pidfile /run/docker.pid -H "$DOCKER_HOST" \
    --cgroup-parent /quotegate-containers "$@" >>/kept/dockerd.log 2>&1 &
  for _ in $(seq 300); do
    docker version >/dev/null 2>&1 && return
    sleep 0.1
  done
  return 75
}
stop_docker() {
  kill "$(cat /run/docker.pid)"
  while [ -e /run/docker.pid ]; do sleep 0.1; done
}
image_of() { sed -n "s/^ *image: \($1.*\)/\1/p" /repository/compose.yaml; }

build_images() {
  start_docker --bridge=none --iptables=false --ip6tables=false --ip-forward=false
  # Of a run that was killed.
  docker ps -aq | xargs -r docker rm -f >/dev/null
  local node stand_in
  node=$(sed -n 's/^FROM \(node:[^ ]*\).*/\1/p' /repository/Dockerfile | head -1)
  if ! docker image inspect "$node" >/dev/null 2>&1 || [ "$(cat /kept/base-image 2>/dev/null)" != "$BASE" ]; then
    say "the image $node, of Debian and npm"
    tar -C /base -c . | docker import --change 'CMD ["node"]' - "$node" >/dev/null
    printf '%s' "$BASE" >/kept/base-image
  fi
  say 'stand-ins for the images of others'
  for stand_in in valkey prom grafana; do
    docker build -q --network host --build-arg "NODE=$node" -t "$(image_of "$stand_in")" \
      -f "/repository/scripts/containers/stand-ins/$stand_in.Dockerfile" /repository/scripts/containers/stand-ins >/dev/null 2>/kept/build.log ||
      { cat /kept/build.log && return 1; }
  done
  say 'docker build'
  docker build -q --network host -t quotegate /repository >/dev/null 2>/kept/build.log || { cat /kept/build.log && return 1; }
  # Layers of earlier commits.
  docker image prune -f >/dev/null
  docker builder prune -f --keep-storage 4GB >/dev/null
  stop_docker
}

run_checks() {
  ip link set lo up
  start_docker
  say 'Docker, in a network of its own'
  local status=0
  node /repository/scripts/containers/checks.ts "$checks" || status=$?
  docker ps -aq | xargs -r docker rm -f >/dev/null
  docker network prune -f >/dev/null
  docker volume prune -f >/dev/null
  stop_docker
  return "$status"
}

BASE=$(stat -c %W:%i /base)
case "${2:-}" in
  run) run_checks ;;
  *)
    build_images
    unshare --net /bin/bash "$0" "$checks" run
    say 'end'
    ;;
esac
