#!/usr/bin/env bash
# Runs the official MCP conformance runner against this server: the ten tasks-* scenarios, and everything that the
# revisions 2026-07-28 and 2025-11-25 require. Then it lets clients that people use drive each tool to its end: ext-tasks
# in both eras, the tasks of the TypeScript SDK 1.x, and the Inspector. It exits with an error where anything fails.
#
#   bash cmd/perdure-conformance/run.sh
#
# It needs Go, and node and npm of any age: the runner wants Node 22, which comes from npm, too. What it installs
# goes to $PERDURE_NPM_CACHE, to be kept between runs, or to a directory that is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

runner=(@modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3)
clients=(
	@modelcontextprotocol/ext-tasks@0.2.2 @modelcontextprotocol/client@2.4.0
	@modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/inspector@2.12.0
)
scenarios=(
	tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal tasks-mrtr-input
	tasks-request-headers tasks-dispatch-and-envelope tasks-required-task-error tasks-mrtr-composition
	tasks-status-notifications # the runner skips it: mcptasks has tests of its own for subscriptions
)

scratch=$(mktemp -d)
server=
helpers=
finish() {
	local code=$? s
	for s in $server $helpers; do
		kill "$s" 2>/dev/null && wait "$s" || true
	done
	[ "$code" -eq 0 ] || { [ ! -s "$scratch/server.log" ] || { echo '--- the server said'; tail -n 30 "$scratch/server.log"; }; }
	rm -rf "$scratch"
	exit "$code"
}
trap finish EXIT

here=cmd/perdure-conformance
npm_cache=${PERDURE_NPM_CACHE:-$scratch/npm}
mkdir -p "$npm_cache"
npm_cache=$(cd "$npm_cache" && pwd)
# install FOLDER PACKAGE... puts the packages into $npm_cache/FOLDER, once.
install() {
	local dir=$npm_cache/$1
	shift
	[ "$(cat "$dir/installed" 2>/dev/null)" != "$*" ] || return 0
	rm -rf "$dir"
	mkdir -p "$dir"
	echo '{"private":true,"type":"module"}' >"$dir/package.json"
	npm install --prefix "$dir" --no-audit --no-fund --save-exact --loglevel=error "$@" >"$scratch/npm.log" 2>&1 ||
		{ cat "$scratch/npm.log"; exit 1; }
	echo "$*" >"$dir/installed"
}
install runner "${runner[@]}"
install clients "${clients[@]}"
cache=$npm_cache/runner
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
# check NAME COMMAND... shows the command's output only where it fails, and otherwise the line that sums it up.
check() {
	local name=$1
	shift
	# The runner has ended with 0 although a check failed: its summary counts too.
	if (cd "$scratch" && timeout 300 "$@") >"$scratch/out.log" 2>&1 </dev/null &&
		! grep -aqE '^(Passed|Total):.* [1-9][0-9]* failed' "$scratch/out.log"; then
		printf '%-32s %s\n' "$name" "$(grep -aE '^(Passed|Total):' "$scratch/out.log" | tail -n 1 | grep . || echo passed)"
		return
	fi
	failed+=("$name")
	printf '%-32s FAILED\n' "$name"
	grep -avE 'SUCCESS|^$' "$scratch/out.log" | tail -n 60
}
run() {
	local name=$1
	shift
	check "$name" node "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" "$@"
}
for s in "${scenarios[@]}"; do
	run "$s" --scenario "$s"
done
run '--requirements 2026-07-28' --requirements 2026-07-28
run '--requirements 2025-11-25' --requirements 2025-11-25

# The drivers are copied to where their packages are.
cp "$here"/clients/*.mjs "$npm_cache/clients/"
check 'ext-tasks, 2026-07-28' node "$npm_cache/clients/ext-tasks.mjs" "$url" modern
check 'ext-tasks, 2025-11-25' node "$npm_cache/clients/ext-tasks.mjs" "$url" legacy
check 'TypeScript SDK 1.x' node "$npm_cache/clients/sdk1.mjs" "$url"
# The Inspector has two faces for scripts: mcpdo, which answers, drives every tool; the CLI, which cannot be asked, needs the
# helper tools of the second server for those that ask.
inspector=$npm_cache/clients/node_modules/.bin
check 'Inspector, mcpdo' env HOME="$scratch" PATH="$inspector:$PATH" node "$npm_cache/clients/inspector.mjs" mcpdo "$url"
mkfifo "$scratch/ready2"
"$scratch/server" -helpers -http 127.0.0.1:0 -db "$scratch/helpers.db" >"$scratch/ready2" 2>>"$scratch/server.log" &
helpers=$!
if read -r line <"$scratch/ready2"; then
	check 'Inspector, CLI' env HOME="$scratch" PATH="$inspector:$PATH" node "$npm_cache/clients/inspector.mjs" cli "${line#listening on }"
else
	failed+=('the server with helper tools did not start')
fi

if grep -q 'DATA RACE' "$scratch/server.log"; then
	failed+=('data race in the server')
fi
for s in "$server" "$helpers"; do
	kill -0 "$s" 2>/dev/null || failed+=('a server has ended')
done
if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}"
	exit 1
fi
