#!/bin/sh
# Makes the program of dist/, dist/main.js, one file with its packages, and a few more for what not every start needs:
# to find and read 469 small files was half of a start. The library, dist/index.js, stays as it is. With the name of a folder
# the program goes there alone, with the console, and needs nothing else of dist/ or node_modules/.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-dist}
# Packages in the older form of modules ask for Node's own with require.
require="import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url)"
esbuild dist/main.js --bundle --splitting --platform=node --format=esm --target=node20.18 \
  --outdir="$folder" --allow-overwrite --chunk-names='[name]-[hash]' --banner:js="$require" \
  --sourcemap --sources-content=false --log-level=warning
chmod +x "$folder/main.js"
mkdir -p "$folder/operations"
cp -r src/operations/console "$folder/operations/"
