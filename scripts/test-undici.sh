#!/usr/bin/env bash
# Whether another undici would do: the types, the build, and the tests that go to upstreams, in a copy of the sources
# beside the installed packages. scripts/test-undici.sh <folder of that undici>
set -euo pipefail
undici=$(realpath "$1")
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -c --exclude=./node_modules --exclude=./.git --exclude=./dist . | tar -x -C "$copy"
mkdir "$copy/node_modules"
# Links to packages lead to their own folders, so only our sources and the build see the other undici.
ln -s "$PWD"/node_modules/{.bin,*} "$copy/node_modules/"
rm "$copy/node_modules/undici"
cp -r "$undici" "$copy/node_modules/undici"

cd "$copy"
node -p "'undici ' + require('undici/package.json').version"
node node_modules/typescript/bin/tsc --noEmit
node scripts/build.mjs
node node_modules/vitest/vitest.mjs run \
  test/upstream test/faults test/e2e test/gateway test/http test/promises test/regression test/routes test/server
