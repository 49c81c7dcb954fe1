// Drives every tool of the tasks to its end with the MCP Inspector, as a script does.
//
//   node inspector.mjs mcpdo URL    revision 2026-07-28
//   node inspector.mjs cli URL      both revisions; the server needs its helper tools
//
// mcpdo declares Tasks and elicitation. The command that meets a question ends and shows it; another command answers.
//
// The CLI declares no elicitation, and in 2026-07-28 always Tasks: a run's question goes to an operator, and the CLI polls
// until he has answered. So there it drives the tools that ask nothing. In 2025-11-25 it is a client without tasks: a call
// whose run asks is answered with the task's handle, and the helper tools, called by the CLI too, bring it to its end.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";

const [face, url] = process.argv.slice(2);
process.env.MCP_INSPECTOR_SECRET_STORE = "memory";

// command runs one and returns its exit code and what it printed, as JSON where it is some.
function command(name, ...args) {
	const p = spawnSync(name, args, { encoding: "utf8", timeout: 120_000, stdio: ["ignore", "pipe", "pipe"] });
	assert.equal(p.signal, null, `${name} ${args.join(" ")} was ended:\n${p.stdout}${p.stderr}`);
	let out = p.stdout;
	try {
		out = JSON.parse(p.stdout);
	} catch {} // an error has no JSON on stdout
	return { code: p.status, out, text: p.stdout + p.stderr };
}

// said is the text of a tool's result.
function said(r) {
	assert.ok(r.out.content, `no result: ${r.code} ${r.text}`);
	return r.out.content[0].text;
}

const toolError = 5; // the Inspector's exit code for a result with isError

function mcpdo() {
	const answers = [
		[/your name/, ["name:=Alice"]],
		[/Delete|input\?/, ["confirm:=true"]],
	];
	let asked = 0;
	const call = (tool, ...args) => {
		let r = command("mcpdo", "--format", "json", "--connection", url, "tools/call", tool, ...args);
		while (r.out.elicitationPending) {
			const { elicitationId, message } = r.out.elicitationPending;
			asked++;
			const answer = answers.find(([about]) => about.test(message));
			assert.ok(answer, `nobody knows what to say to: ${message}`);
			r = command("mcpdo", "--format", "json", "elicitation/respond", elicitationId, ...answer[1]);
		}
		console.log(`${tool}: ${r.code}`);
		return r;
	};
	const connected = command("mcpdo", "connect", url, "--transport", "http", "--era", "modern");
	assert.equal(connected.code, 0, connected.text);
	assert.match(connected.text, /Era: modern/);
	try {
		assert.equal(said(call("greet", "name:=Bob")), "Hello, Bob!");
		assert.equal(said(call("slow_compute", "seconds:=0.3", "label:=x")), "x: computed for 0.3 s");
		assert.equal(said(call("confirm_delete", "filename:=f")), "deleted f");
		assert.match(said(call("multi_input")), /first: .*confirm.*second: .*confirm/);
		assert.equal(said(call("test_tool_with_task")), "Hello, Alice!");
		assert.equal(asked, 4);
		const failed = call("failing_job");
		assert.equal(failed.code, toolError);
		assert.match(said(failed), /fails, as it always does/);
		assert.match(call("protocol_error_job").text, /fails with a protocol error/);
	} finally {
		command("mcpdo", "daemon", "stop");
	}
}

function cli() {
	let era = "modern";
	const call = (tool, args = {}) => {
		const words = Object.entries(args).flatMap(([k, v]) => ["--tool-arg", `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`]);
		const r = command("mcp-inspector", "--cli", url, "--transport", "http", "--protocol-era", era, "--method", "tools/call", "--tool-name", tool, ...words);
		console.log(`${era}: ${tool}: ${r.code}`);
		return r;
	};
	// through brings a call to its end by the helper tools, answering each question with content.
	const through = (tool, args, content) => {
		const handle = call(tool, args);
		assert.match(said(handle), /task_respond/);
		const { taskId, status } = handle.out.structuredContent;
		assert.equal(status, "input_required");
		for (let round = 0; round < 10; round++) {
			const now = call("task_status", { taskId, waitSeconds: 10 }).out.structuredContent;
			if (now.status === "completed") return now.result.content[0].text;
			for (const q of now.questions ?? []) {
				const answered = call("task_respond", { taskId, key: q.key, content });
				assert.equal(answered.out.structuredContent.recorded, true, answered.text);
			}
		}
		assert.fail(`${tool} does not end`);
	};
	assert.equal(said(call("greet", { name: "Bob" })), "Hello, Bob!");
	assert.equal(said(call("slow_compute", { seconds: 0.3, label: "x" })), "x: computed for 0.3 s");
	assert.equal(call("failing_job").code, toolError);
	assert.match(call("protocol_error_job").text, /fails with a protocol error/);
	era = "legacy";
	assert.equal(said(call("slow_compute", { seconds: 0.3, label: "x" })), "x: computed for 0.3 s");
	assert.equal(through("confirm_delete", { filename: "f" }, { confirm: true }), "deleted f");
	assert.match(through("multi_input", {}, { name: "n", confirm: true }), /first: .*confirm.*second: .*confirm/);
	const { taskId } = call("confirm_delete", { filename: "g" }).out.structuredContent;
	assert.match(call("task_cancel", { taskId }).text, /asked to stop/);
	assert.equal(call("task_status", { taskId, waitSeconds: 10 }).out.structuredContent.status, "cancelled");
}

({ mcpdo, cli })[face]();
