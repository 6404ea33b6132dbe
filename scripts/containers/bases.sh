# What takes long and changes rarely, made once: a folder with the system and the Node of the Dockerfile's first line, and
# a second one that has Docker besides. To be sourced. A changed recipe makes both again.

make_bases() {
  local repository=$1 work=$2 tag node suite recipe settings
  tag=$(sed -n 's/^FROM node:\([^ ]*\).*/\1/p' "$repository/Dockerfile" | head -1) # such as 24.1.0-trixie-slim
  node=${tag%%-*}
  suite=${tag#*-}
  suite=${suite%-slim}
  settings=$(npm_settings) || return
  recipe=$({ cat "$repository/scripts/containers/bases.sh" && printf '%s\n' "$settings"; } | sha256sum | cut -c1-12)
  base=$work/base-$tag-$recipe
  tools=$work/tools-$suite-$recipe
  [ -d "$base" ] && [ -d "$tools" ] && return
  rm -rf "$work"/base-* "$work"/tools-* "$work"/*.part
  command -v debootstrap && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || install_debootstrap || return
  make_base "$suite" "$node" "$work/base.part" "$settings" && make_tools "$work/base.part" "$work/tools.part" || return
  mv "$work/base.part" "$base" && mv "$work/tools.part" "$tools"
}

install_debootstrap() {
  apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap debian-archive-keyring
}

# Where this machine gets Debian from, if it is a Debian; else debootstrap's own default.
mirror() {
  grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | sort -u | head -1
}

# Where npm gets its packages from here, for npm inside the image.
npm_settings() {
  local authority registry
  registry=$(npm config get registry 2>/dev/null) || return
  printf 'registry=%s\n' "$registry"
  authority=$(npm config get cafile 2>/dev/null)
  if [ -f "$authority" ]; then printf 'cafile=/usr/local/etc/npm-cafile.pem\n'; fi
}

# As the official image has it: Debian with what Node links to, Node and npm in /usr/local, and the user "node" with the
# number 1000.
make_base() {
  local suite=$1 node=$2 root=$3 settings=$4 platform authority
  case "$(uname -m)" in x86_64) platform=x64 ;; aarch64) platform=arm64 ;; *) return 1 ;; esac
  # shellcheck disable=SC2046 # No mirror, no word.
  debootstrap --variant=minbase --include=ca-certificates,libatomic1 "$suite" "$root" $(mirror) || return
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  npm install --no-save --no-audit --no-fund --prefix "$root.node" "node-linux-$platform@$node" npm@11 || return
  install -m755 "$root.node/node_modules/node-linux-$platform/bin/node" "$root/usr/local/bin/node" || return
  mkdir -p "$root/usr/local/lib/node_modules" "$root/usr/local/etc" "$root/app"
  cp -r "$root.node/node_modules/npm" "$root/usr/local/lib/node_modules/" && rm -r "$root.node"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
  printf '%s\n' "$settings" >"$root/usr/local/etc/npmrc"
  authority=$(npm config get cafile 2>/dev/null)
  if [ -f "$authority" ]; then cp "$authority" "$root/usr/local/etc/npm-cafile.pem"; fi
  chroot "$root" useradd --uid 1000 --user-group --create-home --shell /bin/bash node
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}
}

make_tools() {
  local root=$2
  cp -a "$1" "$root" || return
  # A package that brings a service with it must not start it.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
  chroot "$root" apt-get update -qq || return
  chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    docker.io docker-cli docker-buildx docker-compose iptables iproute2 haproxy
}
