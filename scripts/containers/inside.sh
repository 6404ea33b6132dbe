# Inside of the new namespaces, in three stages. `enter`, the first process there, makes the folder with Docker the root.
# `build` has the network of the machine, so that npm and Debian are reached. `run` has one of its own, where every port is
# free and nothing else is reached.
set -euo pipefail
stage=$1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DOCKER_HOST=unix:///run/docker.sock HOME=/root
say() { printf '\n== %(%T)T  %s\n' -1 "$*"; }

enter() {
  local repository=$1 work=$2 base=$3 tools=$4 folder
  trap 'exit 130' INT TERM
  mount --bind "$tools" "$tools"
  mount --bind /proc "$tools/proc"
  mount --rbind /sys "$tools/sys"
  mount --rbind /dev "$tools/dev"
  for folder in run tmp; do mount -t tmpfs tmpfs "$tools/$folder"; done
  mkdir -p "$tools/repository" "$tools/kept" "$tools/base" "$tools/old"
  mount --bind -o ro "$repository" "$tools/repository"
  mount --bind "$work" "$tools/kept"
  mount --bind "$base" "$tools/base"
  cp /etc/resolv.conf "$tools/run/resolv.conf"
  cd "$tools"
  pivot_root . old
  cd /
  umount --lazy /old
  cp /run/resolv.conf /etc/resolv.conf
}

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
  docker ps -aq | xargs -r docker rm -f >/dev/null
  kill "$(cat /run/docker.pid)"
  while [ -e /run/docker.pid ]; do sleep 0.1; done
}
build() { docker build -q --network host "$@" >/dev/null 2>/kept/build.log || { cat /kept/build.log && return 1; }; }

build_images() {
  start_docker --bridge=none --iptables=false --ip6tables=false --ip-forward=false
  local node made stand_in folder=/repository/scripts/containers/stand-ins
  node=$(sed -n 's/^FROM \(node:[^ ]*\).*/\1/p' /repository/Dockerfile | head -1)
  made=$(stat -c %W:%i /base)
  if ! docker image inspect "$node" >/dev/null 2>&1 || [ "$(cat /kept/base-image 2>/dev/null)" != "$made" ]; then
    say "the image $node, of Debian and npm"
    tar -C /base -c . | docker import --change 'CMD ["node"]' - "$node" >/dev/null
    printf '%s' "$made" >/kept/base-image
  fi
  say 'stand-ins for the images of Valkey and Prometheus, and docker build'
  for stand_in in valkey prom; do
    build --build-arg "NODE=$node" -f "$folder/$stand_in.Dockerfile" \
      -t "$(sed -n "s/^ *image: \($stand_in.*\)/\1/p" /repository/compose.yaml)" "$folder"
  done
  build -t quotegate /repository
  # Layers of earlier commits.
  docker image prune -f >/dev/null
  docker builder prune -f --keep-storage 4GB >/dev/null
  stop_docker
}

case "$stage" in
  enter)
    enter "${@:2:4}"
    bash /repository/scripts/containers/inside.sh build "$6"
    ;;
  build)
    build_images
    unshare --net bash "$0" run "$2"
    ;;
  run)
    ip link set lo up
    start_docker
    say 'Docker, in a network of its own'
    status=0
    node /repository/scripts/containers/checks.ts "$2" || status=$?
    docker network prune -f >/dev/null
    docker volume prune -af >/dev/null
    stop_docker
    exit "$status"
    ;;
esac
