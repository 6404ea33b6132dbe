# What takes long and changes rarely, made once: a folder with the system and the Node of the Dockerfile's first line, and
# a second one that has Docker besides. A changed recipe makes both again, and the images that were made of them.
set -euo pipefail
cd "$(dirname "$0")"
tag=$(sed -n 's/^FROM node:\([^ ]*\).*/\1/p' ../../Dockerfile | head -1) # such as 24.1.0-trixie-slim
# Where npm gets its packages from here, for npm inside the image.
registry=$(npm config get registry)
authority=$(npm config get cafile)
recipe=$(printf '%s\n' "$tag" "$registry" "$authority" | cat - bases.sh | sha256sum)
cd "$1"
[ "$(cat recipe 2>/dev/null)" = "$recipe" ] && exit
rm -rf base tools docker recipe
export DEBIAN_FRONTEND=noninteractive
if ! command -v debootstrap || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap debian-archive-keyring
fi

# As the official image has it: Debian with what Node links to, Node and npm in /usr/local, and the user "node" with the
# number 1000. From where this machine gets Debian, if it is a Debian; else from debootstrap's own default.
mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d | sort -u | head -1 || true)
debootstrap --variant=minbase --include=ca-certificates,libatomic1 "$(cut -d- -f2 <<<"$tag")" base ${mirror:+"${mirror% }"}
cp /etc/resolv.conf base/etc/resolv.conf
npm install --no-save --no-audit --no-fund --prefix node "node-linux-$(node -p process.arch)@${tag%%-*}" npm@11
install -m755 node/node_modules/node-linux-*/bin/node base/usr/local/bin/node
mkdir -p base/usr/local/lib/node_modules base/usr/local/etc base/app
mv node/node_modules/npm base/usr/local/lib/node_modules/ && rm -r node
ln -s ../lib/node_modules/npm/bin/npm-cli.js base/usr/local/bin/npm
printf 'registry=%s\n' "$registry" >base/usr/local/etc/npmrc
if [ -f "$authority" ]; then
  cp "$authority" base/etc/npm-cafile.pem
  printf 'cafile=/etc/npm-cafile.pem\n' >>base/usr/local/etc/npmrc
fi
chroot base useradd --uid 1000 --user-group --create-home --shell /bin/bash node
rm -rf base/var/cache/apt/archives/*.deb base/var/lib/apt/lists/* base/usr/share/{doc,man,locale,info}

cp -a base tools
# A package that brings a service with it must not start it.
printf '#!/bin/sh\nexit 101\n' >tools/usr/sbin/policy-rc.d && chmod +x tools/usr/sbin/policy-rc.d
chroot tools apt-get update -qq
chroot tools apt-get install -y -qq --no-install-recommends \
  docker.io docker-cli docker-buildx docker-compose iptables iproute2 haproxy
printf '%s' "$recipe" >recipe
