// Package memstore is an engine.Store in memory, for tests: small, slow and obvious, so that the real stores can be compared
// with it. It is not durable: what survives a Close is the [Disk], which another Store can be opened on.
//
// One mutex guards everything. A write works on copies of the runs it touches, which replace the originals when it
// succeeds.
package memstore
