package boltstore

import (
	"encoding/binary"

	"github.com/perdure/perdure/history"
)

// The buckets are flat: a bucket per run would cost a quarter of the throughput. All integers are big-endian, so that
// keys sort by value; run is the 16 bytes of a ULID, which sort by the time of the start.
//
//	bucket        key                                  value
//	meta          name                                 8 bytes each: format, epoch, time (see meta.go)
//	events        run16 | seq8                         event record
//	specs         run16                                Spec record
//	states        run16                                readyAt8 | State record; readyAt is 0 without a row in ready
//	keys          tenant length 2 | tenant | key       run16 of the newest run with that key
//	tasks         task id                              run16
//	ready         see linePrefix and readyKey          empty; epoch8 for a blocked run
//	status        class1 | run16                       empty
//	timers        at8 | run16 | position               empty
//	runtimers     run16 | at8 | position               empty
//	inbox         run16 | seq8                         acceptedAt8 | InboxItem record without both
//	dead          run16 | seq8                         the same, for items that no event consumed
//	identities    run16 | kind1 | id                   SHA-256 of the content
//	interrupts    run16 | key                          Interrupt record of an open question
//	answered      run16 | key                          1 byte: answered or closed
//	definitions   name | 0 | version4                  the definition's bytes
//	digests       name | 0 | SHA-256                   version4
//	secrets       name                                 32 bytes
//
// Of retention, since format 2:
//
//	expiring      at8 | run16                          empty: a run that is over, and its start says until when it is kept
//	closed        see closedPrefix and closedKey       empty: a run that is over, and a policy says how long it is kept
//	tombstones    run16                                Tombstone record
//	deleted       deletedAt8 | run16                   empty
//	erasing       run16                                empty: a deleted run with rows left
//	holds         id16                                 Hold record
//	receipts      run16                                Receipt record
//	journal       seq8                                 Entry record
//	identitylog   run16 | n8                           at8 | kind1 | id, of each row in identities, in order
//
// Since format 3:
//
//	values        run16 | kind1 | seq8                 a payload that is kept apart, or empty for an erased one: see values.go
//	listed        see listed.go                        empty: a run, by tenant and workflow, by principal, by tag
//	generations   run16 | seq8                         at8: the event at which a generation of the run ended
//	bases         run16                                Base record: what pruned events add up to
type bucketID uint8

const (
	bMeta bucketID = iota
	bEvents
	bSpecs
	bStates
	bKeys
	bTasks
	bReady
	bStatus
	bTimers
	bRunTimers
	bInbox
	bDead
	bIdentities
	bInterrupts
	bAnswered
	bDefinitions
	bDigests
	bSecrets
	bExpiring
	bClosed
	bTombstones
	bDeleted
	bErasing
	bHolds
	bReceipts
	bJournal
	bIdentityLog
	bListed
	bValues
	bGenerations
	bBases
	nBuckets
)

func (b bucketID) String() string {
	return [nBuckets]string{
		"meta", "events", "specs", "states", "keys", "tasks", "ready", "status", "timers", "runtimers", "inbox",
		"dead", "identities", "interrupts", "answered", "definitions", "digests", "secrets",
		"expiring", "closed", "tombstones", "deleted", "erasing", "holds", "receipts", "journal", "identitylog", "listed", "values", "generations",
		"bases",
	}[b]
}

// byRun reports whether the keys of a bucket begin with a run.
func (b bucketID) byRun() bool {
	switch b {
	case bMeta, bKeys, bTasks, bReady, bStatus, bTimers, bDefinitions, bDigests, bSecrets, bExpiring, bClosed, bDeleted, bHolds, bJournal, bListed:
		return false
	}
	return true
}

// The values in answered.
const (
	markAnswered = 1
	markClosed   = 2
)

const runLen = len(history.RunID{})

func u64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

func timeBytes(b []byte, t history.Time) []byte { return u64(b, uint64(t)) }

func timeOf(b []byte) history.Time { return history.Time(binary.BigEndian.Uint64(b)) }

// runSeqKey is run16 | seq8: events, inbox, dead.
func runSeqKey(id history.RunID, seq uint64) []byte {
	return u64(append(make([]byte, 0, runLen+8), id[:]...), seq)
}

// runTextKey is run16 | text: interrupts, answered.
func runTextKey(id history.RunID, text string) []byte {
	return append(append(make([]byte, 0, runLen+len(text)), id[:]...), text...)
}

func identityKey(id history.RunID, kind history.InboxKind, key string) []byte {
	b := append(make([]byte, 0, runLen+1+len(key)), id[:]...)
	return append(append(b, byte(kind)), key...)
}

func tenantKey(tenant, key string) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(tenant)+len(key)), uint16(len(tenant)))
	return append(append(b, tenant...), key...)
}

func timerKey(id history.RunID, t history.Timer) []byte {
	b := timeBytes(make([]byte, 0, 8+runLen+len(t.Position)), t.At)
	return append(append(b, id[:]...), t.Position...)
}

// splitTimerKey is the inverse of timerKey; ok is false where k is none.
func splitTimerKey(k []byte) (id history.RunID, t history.Timer, ok bool) {
	if len(k) < 8+runLen {
		return id, t, false
	}
	copy(id[:], k[8:])
	return id, history.Timer{At: timeOf(k), Position: history.Position(k[8+runLen:])}, true
}

func runTimerKey(id history.RunID, t history.Timer) []byte {
	b := append(make([]byte, 0, runLen+8+len(t.Position)), id[:]...)
	return append(timeBytes(b, t.At), t.Position...)
}

// splitRunTimerKey is the inverse of runTimerKey; ok is false where k is none.
func splitRunTimerKey(k []byte) (id history.RunID, t history.Timer, ok bool) {
	if len(k) < runLen+8 {
		return id, t, false
	}
	copy(id[:], k)
	return id, history.Timer{At: timeOf(k[runLen:]), Position: history.Position(k[runLen+8:])}, true
}

// workflowPrefix is name length 1 | name | version4.
func workflowPrefix(w history.WorkflowKey) []byte {
	b := append(make([]byte, 0, 64), byte(len(w.Name)))
	return binary.BigEndian.AppendUint32(append(b, w.Name...), uint32(w.Version))
}

// readyKey is the place of a run in its line, highest priority first, then oldest:
//
//	linePrefix | inverted priority8 | readyAt8 | run16
func readyKey(s *history.Spec, readyAt history.Time) []byte {
	b := u64(linePrefix(s), ^(uint64(s.Priority) ^ 1<<63))
	b = timeBytes(b, readyAt)
	return append(b, s.ID[:]...)
}

// readySuffix is the length of a ready key after its prefix.
const readySuffix = 8 + 8 + runLen

// runOfReady returns the run of a ready key.
func runOfReady(k string) (id history.RunID) {
	copy(id[:], k[len(k)-runLen:])
	return id
}

// statusClass groups statuses for the index: ready and running are one, because a lease comes and goes in memory.
func statusClass(s history.Status) byte {
	if s == history.StatusRunning {
		return byte(history.StatusReady)
	}
	return byte(s)
}

func statusKey(s history.Status, id history.RunID) []byte {
	return append(append(make([]byte, 0, 1+runLen), statusClass(s)), id[:]...)
}

func definitionKey(name string, version int) []byte {
	return binary.BigEndian.AppendUint32(definitionPrefix(name), uint32(version))
}

// definitionPrefix is name | 0: no name contains a zero byte, so that the keys sort by name.
func definitionPrefix(name string) []byte {
	return append(append(make([]byte, 0, len(name)+33), name...), 0)
}

// splitDefinitionKey is the inverse of definitionKey; ok is false where k is none.
func splitDefinitionKey(k []byte) (name string, version int, ok bool) {
	i := len(k) - 5
	if i < 1 || k[i] != 0 {
		return "", 0, false
	}
	return string(k[:i]), int(binary.BigEndian.Uint32(k[i+1:])), true
}

func digestKey(name string, d history.Digest) []byte { return append(definitionPrefix(name), d[:]...) }
