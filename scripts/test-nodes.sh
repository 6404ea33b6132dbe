#!/usr/bin/env bash
# The test suite on other versions of Node, with the binaries of the npm package `node`. Versions may be named:
# npm run test:nodes -- 24 26
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
if [ "${#versions[@]}" -eq 0 ]; then versions=(20.18.1 20 22 24 26); fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm run --silent build

# What `engines` promises at least is older than what the test runner needs (rolldown: 20.19): there the built
# program shows that it starts, serves, orders and stops.
try_program() {
  node scripts/try-program.mjs
}

failed=()
for version in "${versions[@]}"; do
  mkdir -p "$folder/$version"
  (cd "$folder/$version" && npm init -y >/dev/null && npm install --no-save --no-audit --no-fund --silent "node@$version")
  (
    export PATH="$folder/$version/node_modules/node/bin:$PATH"
    printf '\n== node %s\n' "$(node --version)"
    case "$version" in
      20.18.*) try_program ;;
      *) node node_modules/vitest/vitest.mjs run ;;
    esac
  ) || failed+=("$version")
done

if [ "${#failed[@]}" -gt 0 ]; then
  printf '\nfailed on: %s\n' "${failed[*]}"
  exit 1
fi
printf '\npassed on: %s\n' "${versions[*]}"
