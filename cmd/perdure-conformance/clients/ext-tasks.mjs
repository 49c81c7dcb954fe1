// Drives every tool of the tasks to its end with @modelcontextprotocol/ext-tasks.
//
//   node ext-tasks.mjs URL modern|legacy
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createApplicationInputHandler, createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

const [url, era] = process.argv.slice(2);
const clientInfo = { name: "ext-tasks", version: "1.0.0" };
const clientCapabilities = { elicitation: { form: {} } };
const protocolVersion = "2026-07-28";

const client = new Client(clientInfo, {
	capabilities: clientCapabilities,
	versionNegotiation: { mode: era === "modern" ? { pin: protocolVersion } : "legacy" },
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
assert.equal(client.getProtocolEra(), era);

let nextId = 1;
// rawDispatch sends what the client's typed codecs would refuse.
async function rawDispatch(request, options) {
	const name = request.params?.name ?? request.params?.taskId;
	const response = await fetch(url, {
		method: "POST",
		signal: options?.signal,
		headers: {
			"Content-Type": "application/json",
			Accept: "application/json, text/event-stream",
			"MCP-Protocol-Version": protocolVersion,
			"Mcp-Method": request.method,
			...(name === undefined ? {} : { "Mcp-Name": name }),
			...options?.context?.headers,
		},
		body: JSON.stringify({ jsonrpc: "2.0", id: `raw-${nextId++}`, ...request }),
	});
	const text = await response.text();
	const data = response.headers.get("Content-Type")?.startsWith("text/event-stream")
		? text.split("\n").findLast((l) => l.startsWith("data: ")).slice("data: ".length)
		: text;
	const message = JSON.parse(data);
	return message.error === undefined ? { kind: "result", result: message.result } : { kind: "error", error: message.error };
}

const asked = [];
const session = createTaskSessionFromClient(client, {
	endpointId: "conformance",
	...(era === "modern" ? { rawDispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities } } : {}),
	onInputRequest: createApplicationInputHandler({
		elicitation: ({ params }) => {
			asked.push(params.message);
			return params.message.includes("your name") ? { action: "accept", content: { name: "Alice" } } : { action: "accept", content: { confirm: true } };
		},
		sampling: () => assert.fail("nothing samples"),
		roots: () => assert.fail("nothing asks for roots"),
	}),
});

async function outcome(tool, args = {}) {
	const execution = await session.callTool(tool, args, { task: { preference: tool === "greet" ? "allow" : "prefer" } });
	const settled = await execution.settle();
	console.log(`${era}: ${tool}: ${execution.kind}, ${settled.outcome.status}`);
	return { kind: execution.kind, ...settled };
}

async function text(tool, args, wantsTask = true) {
	const settled = await outcome(tool, args);
	assert.equal(settled.kind, wantsTask ? "task" : "immediate", tool);
	const result = resultFromTaskOutcome(settled.outcome);
	return { text: result.content[0].text, isError: result.isError === true };
}

assert.deepEqual(await text("greet", { name: "Bob" }, false), { text: "Hello, Bob!", isError: false });
assert.deepEqual(await text("slow_compute", { seconds: 0.3, label: "x" }), { text: "x: computed for 0.3 s", isError: false });
assert.deepEqual(await text("confirm_delete", { filename: "f" }), { text: "deleted f", isError: false });
assert.match((await text("multi_input")).text, /first: .*confirm.*second: .*confirm/);
if (era === "modern") assert.equal((await text("failing_job")).isError, true);
else assert.equal((await outcome("failing_job")).outcome.status, "failed"); // that revision's word for a tool's error
assert.equal((await text("test_tool_with_task")).text, "Hello, Alice!");
assert.ok(asked.length >= 4, `asked ${asked.length} times`);

const failed = await outcome("protocol_error_job");
assert.equal(failed.outcome.status, "failed");
assert.match(failed.outcome.error.message, /protocol error/);

const slow = await session.callTool("slow_compute", { seconds: 60 }, { task: { preference: "prefer" } });
await slow.cancel();
assert.equal((await slow.settle()).outcome.status, "cancelled");
console.log(`${era}: cancelled`);

await session.close();
await client.close();
