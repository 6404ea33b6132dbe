#!/usr/bin/env bash
# The test suite on other versions of Node, with the binaries of the npm package `node`, and what goes to upstreams on
# the next undici. Rows may be named: npm run test:nodes -- 24 26 24+undici@8
set -euo pipefail
cd "$(dirname "$0")/.."
rows=("$@")
if [ "${#rows[@]}" -eq 0 ]; then rows=(18 20.17.0 20.18.1 20 22 24 26 24+undici@8); fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm run --silent build

# Installs a package in a folder of its own: package.json and the lockfile stay as they are. The package `node` fetches its
# binary in an install script, and `npm run` hands down the `ignore-scripts` of our .npmrc.
install_aside() {
  mkdir -p "$1"
  (cd "$1" && npm init -y >/dev/null && npm install --ignore-scripts=false --no-save --no-audit --no-fund --silent "$2")
}

# On a Node that is too old, everything that a user may start says in its own words which one is needed.
says_what_it_needs() {
  local command said
  for command in 'node dist/main.js' 'node scripts/start.mjs' "node -e require('./dist/index.cjs')" \
    "node -e import('./dist/index.js')" "node -e require('./dist/sandbox.cjs')" "node -e import('./dist/sandbox.js')"; do
    # Without a shell that reads it again: the commands have no blanks within a word.
    if said=$($command 2>&1) || [[ "$said" != *"quotegate needs Node "* ]]; then
      printf '%s: %s\n' "$command" "$said"
      return 1
    fi
  done
}

failed=()
for row in "${rows[@]}"; do
  node=${row%%+*}
  aside="$folder/node-$node"
  [ -d "$aside" ] || install_aside "$aside" "node@$node"
  (
    export PATH="$aside/node_modules/node/bin:$PATH"
    printf '\n== node %s\n' "$(node --version)"
    [[ "$(node --version)." == "v$node."* ]] || { echo "wanted node $node"; exit 1; }
    case "$row" in
      18* | 20.17.*) says_what_it_needs ;;
      # What `engines` promises at least is older than what the test runner needs (rolldown: 20.19): there the built
      # program shows that it starts, serves, orders and stops.
      20.18.*) node scripts/try-program.mjs ;;
      *+undici@*)
        undici="$folder/undici-${row#*@}"
        install_aside "$undici" "${row#*+}" && scripts/test-undici.sh "$undici/node_modules/undici"
        ;;
      *) node node_modules/vitest/vitest.mjs run ;;
    esac
  ) || failed+=("$row")
done

if [ "${#failed[@]}" -gt 0 ]; then
  printf '\nfailed on: %s\n' "${failed[*]}"
  exit 1
fi
printf '\npassed on: %s\n' "${rows[*]}"
