// Drives every tool of the tasks to its end with the tasks of @modelcontextprotocol/sdk 1.x (2025-11-25).
//
//   node sdk1.mjs URL
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const client = new Client({ name: "sdk1", version: "1.0.0" }, { capabilities: { elicitation: { form: {} }, tasks: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => ({
	action: "accept",
	content: params.message.includes("your name") ? { name: "Alice" } : { confirm: true },
}));
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
await client.listTools(); // tells the client which tools can be tasks

async function drive(tool, args = {}, onTask = () => {}) {
	const seen = [];
	for await (const message of client.experimental.tasks.callToolStream({ name: tool, arguments: args }, CallToolResultSchema, { task: { ttl: 600_000 } })) {
		seen.push(message.task?.status ?? message.type);
		if (message.type === "taskCreated") await onTask(message.task);
		if (message.type === "result" || message.type === "error") {
			console.log(`sdk 1.x: ${tool}: ${seen.join(" ")}`);
			return message;
		}
	}
	assert.fail(`${tool} ended without a result`);
}

async function text(tool, args) {
	const message = await drive(tool, args);
	assert.equal(message.type, "result", `${tool}: ${message.error}`);
	return message.result.content[0].text;
}

assert.equal(await text("slow_compute", { seconds: 0.3, label: "x" }), "x: computed for 0.3 s");
assert.equal(await text("confirm_delete", { filename: "f" }), "deleted f");
assert.match(await text("multi_input"), /first: .*confirm.*second: .*confirm/);
assert.equal(await text("test_tool_with_task"), "Hello, Alice!");
assert.equal((await client.callTool({ name: "greet", arguments: { name: "Bob" } })).content[0].text, "Hello, Bob!");

// A tool's error is a failed task in this revision; its result can still be fetched.
let id;
await drive("failing_job", {}, (task) => (id = task.taskId));
const result = await client.experimental.tasks.getTaskResult(id, CallToolResultSchema);
assert.equal(result.isError, true);

const failed = await drive("protocol_error_job");
assert.equal(failed.type, "error");

await drive("slow_compute", { seconds: 60 }, async (task) => {
	id = task.taskId;
	await client.experimental.tasks.cancelTask(id);
});
assert.equal((await client.experimental.tasks.getTask(id)).status, "cancelled");

await client.close();
