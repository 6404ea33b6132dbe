# Inside of the new namespaces, in two stages. `build` makes the folder with Docker the root, and has the network of the
# machine, so that npm and Debian are reached. `run` has one of its own, where every port is free and nothing else is
# reached.
set -euo pipefail
stage=$1
checks=$2
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DOCKER_HOST=unix:///run/docker.sock HOME=/root
say() { printf '\n== %(%T)T  %s\n' -1 "$*"; }
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

if [ "$stage" = run ]; then
  ip link set lo up
  start_docker
  say 'Docker, in a network of its own'
  status=0
  node /repository/scripts/containers/checks.ts "$checks" || status=$?
  docker network prune -f >/dev/null
  docker volume prune -af >/dev/null
  stop_docker
  exit "$status"
fi

work=$3
trap 'exit 130' INT TERM
mount --bind "$work/tools" "$work/tools"
cd "$work/tools"
mount --bind /proc proc
mount --rbind /sys sys
mount --rbind /dev dev
for folder in run tmp; do mount -t tmpfs tmpfs "$folder"; done
mkdir -p repository kept old
mount --bind -o ro "$4" repository
mount --bind "$work" kept
cp /etc/resolv.conf etc/resolv.conf
pivot_root . old
cd /
umount --lazy /old

start_docker --bridge=none --iptables=false --ip6tables=false --ip-forward=false
node=$(sed -n 's/^FROM \(node:[^ ]*\).*/\1/p' /repository/Dockerfile | head -1)
if ! docker image inspect "$node" >/dev/null 2>&1; then
  say "the image $node, of Debian and npm"
  tar -C /kept/base -c . | docker import --change 'CMD ["node"]' - "$node" >/dev/null
fi
say 'a stand-in for the images of Valkey and Prometheus, and docker build'
build --build-arg "NODE=$node" -t stand-in - </repository/scripts/containers/stand-in.Dockerfile
sed -n 's/^ *image: \(\(valkey\|prom\)\/.*\)/\1/p' /repository/compose.yaml | xargs -n 1 docker tag stand-in
build -t quotegate /repository
# Layers of earlier commits.
docker image prune -f >/dev/null
docker builder prune -f --keep-storage 4GB >/dev/null
stop_docker
unshare --net bash /repository/scripts/containers/inside.sh run "$checks"
