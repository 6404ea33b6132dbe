#!/usr/bin/env bash
# What a newcomer does: a copy of what is committed, the README's first line, a quote, and a clean stop.
# PORT and ADMIN_PORT may be set where 8080 and 8081 are taken.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

copy=$(mktemp -d)
server=
clean_up() {
  if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi
  rm -rf "$copy"
}
trap clean_up EXIT

passed=0
failed=0
check() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1)) && echo "ok: $name"
  else
    failed=$((failed + 1)) && echo "FAILED: $name"
  fi
}

traffic="http://127.0.0.1:${PORT:-8080}"
operations="http://127.0.0.1:${ADMIN_PORT:-8081}"
became_ready() {
  for _ in $(seq 240); do
    curl -fs -o /dev/null "$operations/readyz" && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.5
  done
  cat output
  return 1
}
gave_a_quote() {
  curl -fs -H 'App-Name: demo' "$traffic/v3/pairs/ETH_USDC/quotes?amount=0.1" | grep '"expiry":[0-9]'
}
# Not grep -q: it leaves at the first match, and curl would fail without a reader.
counted_it() { curl -fs "$operations/metrics" | grep '^quotegate_http_requests_total{.*} 1$' >/dev/null; }
# npm itself may have ended sooner, with its shell: what counts is that the program ended in good order.
stopped_cleanly() {
  kill -TERM "$server"
  wait "$server" || true
  server=
  for _ in $(seq 60); do
    grep -q '"msg":"stopped"' output && return
    sleep 0.5
  done
  cat output
  return 1
}
is_gone() { ! curl -s -o /dev/null "$operations/healthz"; }

# Or a gateway that runs there would be asked in its place.
is_gone || { echo "FAILED: something listens at $operations already" && exit 1; }
git archive HEAD | tar -x -C "$copy"
cd "$copy"
began=$SECONDS
npm ci >output 2>&1
npm start >>output 2>&1 &
server=$!
check 'npm ci && npm start becomes ready' became_ready
check 'a quote from the sandbox' gave_a_quote
echo "from the copy to the first quote: $((SECONDS - began)) s"
check 'the metrics have counted it' counted_it
check 'SIGTERM to npm start ends the program in good order' stopped_cleanly
check 'nothing is left that listens' is_gone
printf ' Tests  %s passed | %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
