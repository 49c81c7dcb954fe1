#!/usr/bin/env bash
# Runs the official MCP conformance runner against this server: the ten tasks-* scenarios, and everything that the
# revisions 2026-07-28 and 2025-11-25 require. It exits with an error where anything fails.
#
#   bash cmd/perdure-conformance/run.sh
#
# It needs Go, and node and npm of any age: the runner wants Node 22, which comes from npm, too. What it installs
# goes to $PERDURE_NPM_CACHE, to be kept between runs, or to a directory that is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

runner=@modelcontextprotocol/conformance@0.2.0-alpha.12
node=node@22.23.3
scenarios=(
	tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal tasks-mrtr-input
	tasks-request-headers tasks-dispatch-and-envelope tasks-required-task-error tasks-mrtr-composition
	tasks-status-notifications # the runner skips it: mcptasks has tests of its own for subscriptions
)

scratch=$(mktemp -d)
server=
finish() {
	local code=$?
	if [ -n "$server" ] && kill "$server" 2>/dev/null; then
		wait "$server" || true
	fi
	[ "$code" -eq 0 ] || { [ ! -s "$scratch/server.log" ] || { echo '--- the server said'; tail -n 30 "$scratch/server.log"; }; }
	rm -rf "$scratch"
	exit "$code"
}
trap finish EXIT

cache=${PERDURE_NPM_CACHE:-$scratch/npm}/conformance-0.2.0-alpha.12
if [ ! -x "$cache/node_modules/node/bin/node" ] || [ ! -d "$cache/node_modules/@modelcontextprotocol/conformance" ]; then
	mkdir -p "$cache"
	echo '{"private":true}' >"$cache/package.json"
	npm install --prefix "$cache" --no-audit --no-fund --save-exact --loglevel=error "$runner" "$node" >"$scratch/npm.log" 2>&1 ||
		{ cat "$scratch/npm.log"; exit 1; }
fi
# npm may have been told not to run the script that puts Node's binary in its place.
[ -x "$cache/node_modules/node/bin/node" ] || (cd "$cache" && npm rebuild --foreground-scripts node)
export PATH=$cache/node_modules/node/bin:$PATH
node --version

go build -race -o "$scratch/server" ./cmd/perdure-conformance
mkfifo "$scratch/ready"
"$scratch/server" -http 127.0.0.1:0 -db "$scratch/conformance.db" >"$scratch/ready" 2>"$scratch/server.log" &
server=$!
read -r line <"$scratch/ready" || { echo 'the server did not start'; exit 1; }
url=${line#listening on }
echo "$url"

failed=()
# run NAME ARGUMENTS... shows the runner's output only where it fails.
run() {
	local name=$1
	shift
	if (cd "$scratch" && timeout 300 node "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" "$@") >"$scratch/out.log" 2>&1; then
		printf '%-32s %s\n' "$name" "$(grep -aE '^(Passed|Total):' "$scratch/out.log" | tail -n 1)"
		return
	fi
	failed+=("$name")
	printf '%-32s FAILED\n' "$name"
	grep -avE 'SUCCESS|^$' "$scratch/out.log" | tail -n 60
}
for s in "${scenarios[@]}"; do
	run "$s" --scenario "$s"
done
run '--requirements 2026-07-28' --requirements 2026-07-28
run '--requirements 2025-11-25' --requirements 2025-11-25

if grep -q 'DATA RACE' "$scratch/server.log"; then
	failed+=('data race in the server')
fi
if ! kill -0 "$server" 2>/dev/null; then
	failed+=('the server has ended')
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}"
	exit 1
fi
