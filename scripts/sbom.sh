#!/usr/bin/env bash
# Names every package that the program is made of, in sbom.cdx.json (CycloneDX): npm run sbom [-- FILE]
# `npm sbom --omit dev` leaves out what packages of development use too. In a folder where there are none, it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-sbom.cdx.json}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# npm takes the name of what it describes from the folder.
mkdir "$folder/quotegate"
node -e '
  const { devDependencies, scripts, ...production } = JSON.parse(require("node:fs").readFileSync("package.json"))
  process.stdout.write(JSON.stringify(production))' >"$folder/quotegate/package.json"
cp package-lock.json "$folder/quotegate/"
(
  cd "$folder/quotegate"
  npm install --package-lock-only --ignore-scripts --no-audit --no-fund --offline --silent
  npm sbom --package-lock-only --sbom-format cyclonedx
) >"$folder/sbom.json"
mv "$folder/sbom.json" "$file"
