# The first process of the new namespaces: makes the folder with Docker the root, and starts what is inside.
set -euo pipefail
repository=$1 work=$2 base=$3 tools=$4 checks=$5
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
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DOCKER_HOST=unix:///run/docker.sock HOME=/root
status=0
/bin/bash /repository/scripts/containers/inside.sh "$checks" || status=$?
exit "$status"
