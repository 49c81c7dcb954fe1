// Package wiretest is a kit for tests: it holds every message that an MCP server sends against the JSON Schemas of the
// protocol and of the Tasks extension.
//
// [Checker.Handler] checks a server over HTTP, [Checker.Transport] one over a connection such as stdio. They change
// nothing; a message that does not fit, or that has no schema, is reported to the test.
//
// A message of revision 2026-07-28 is held against that revision and the extension, and every older one
// against 2025-11-25, whose schema covers them. The folder schema says where the schemas are from.
package wiretest
