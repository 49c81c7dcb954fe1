package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// transferTable says how the rows of a kind stand in the file: in one bucket, by keys that sort as the rows do.
type transferTable struct {
	bucket bucketID
	// key is the key of a row; that of the zero Row is before all.
	key func(r *transfer.Row) []byte
	// read fills in a row. It keeps nothing of the memory of the transaction.
	read func(v *transferReader, r *transfer.Row, key, val []byte) error
	// write puts a row, with all that leads to it.
	write func(w transferWriter, r *transfer.Row) error
}

var transferTables = map[transfer.Kind]transferTable{
	transfer.Definitions: {
		bDefinitions,
		func(r *transfer.Row) []byte { return definitionKey(string(r.Key), int(r.Seq)) },
		func(_ *transferReader, r *transfer.Row, key, val []byte) error {
			name, version, ok := splitDefinitionKey(key)
			r.Key, r.Seq, r.Rec = []byte(name), uint64(version), bytes.Clone(val)
			return intact(ok)
		},
		func(w transferWriter, r *transfer.Row) error {
			version := binary.BigEndian.AppendUint32(nil, uint32(r.Seq))
			return w.all(write{bucket: bDefinitions, key: definitionKey(string(r.Key), int(r.Seq)), value: r.Rec},
				write{bucket: bDigests, key: digestKey(string(r.Key), history.Sum(r.Rec)), value: version})
		},
	},
	transfer.Secrets: {
		bSecrets,
		func(r *transfer.Row) []byte { return r.Key },
		func(_ *transferReader, r *transfer.Row, key, val []byte) error {
			r.Key, r.Rec = bytes.Clone(key), bytes.Clone(val)
			return nil
		},
		func(w transferWriter, r *transfer.Row) error { return w.put(bSecrets, r.Key, r.Rec) },
	},
	transfer.Runs: {bSpecs, runKey, readRun, transferWriter.putRun},
	transfer.Keys: {
		bKeys,
		func(r *transfer.Row) []byte { return tenantKey(string(r.Tenant), string(r.Key)) },
		func(_ *transferReader, r *transfer.Row, key, val []byte) error {
			ok := len(val) == runLen && len(key) >= 2 && len(key) >= 2+int(binary.BigEndian.Uint16(key))
			if ok {
				n := 2 + int(binary.BigEndian.Uint16(key))
				r.Tenant, r.Key, r.Run = bytes.Clone(key[2:n]), bytes.Clone(key[n:]), history.RunID(val)
			}
			return intact(ok)
		},
		func(w transferWriter, r *transfer.Row) error {
			return w.put(bKeys, tenantKey(string(r.Tenant), string(r.Key)), bytes.Clone(r.Run[:]))
		},
	},
	transfer.Bases:       ofRun(bBases),
	transfer.Generations: {bGenerations, seqKey, readTimed, putTimed(bGenerations)},
	transfer.Events:      {bEvents, seqKey, readEvent, transferWriter.putEvent},
	transfer.Timers: {
		bRunTimers,
		func(r *transfer.Row) []byte { return runTimerKey(r.Run, timerOf(r)) },
		func(_ *transferReader, r *transfer.Row, key, _ []byte) error {
			id, t, ok := splitRunTimerKey(key)
			r.Run, r.At, r.Key = id, t.At, []byte(t.Position)
			return intact(ok)
		},
		func(w transferWriter, r *transfer.Row) error {
			return w.all(write{bucket: bRunTimers, key: runTimerKey(r.Run, timerOf(r))}, write{bucket: bTimers, key: timerKey(r.Run, timerOf(r))})
		},
	},
	transfer.Inbox:      {bInbox, seqKey, readTimed, putTimed(bInbox)},
	transfer.Dead:       {bDead, seqKey, readTimed, putTimed(bDead)},
	transfer.Identities: {bIdentities, func(r *transfer.Row) []byte { return identityKey(r.Run, r.Item, string(r.Key)) }, readIdentity, transferWriter.putIdentity},
	transfer.Questions: {
		bInterrupts, textKey, readText,
		func(w transferWriter, r *transfer.Row) error { return w.put(bInterrupts, textKey(r), r.Rec) },
	},
	transfer.Asked: {
		bAnswered, textKey,
		func(v *transferReader, r *transfer.Row, key, _ []byte) error { return readText(v, r, key, nil) },
		func(w transferWriter, r *transfer.Row) error {
			return w.put(bAnswered, textKey(r), []byte{markClosed}) // which of the two it was tells the history
		},
	},
	transfer.Tombstones: {
		bDeleted,
		func(r *transfer.Row) []byte { return append(timeBytes(nil, r.At), r.Run[:]...) },
		func(v *transferReader, r *transfer.Row, key, _ []byte) error {
			if len(key) != 8+runLen {
				return intact(false)
			}
			r.At, r.Run = timeOf(key), history.RunID(key[8:])
			r.Rec = bytes.Clone(v.get(bTombstones, key[8:]))
			return intact(r.Rec != nil)
		},
		func(w transferWriter, r *transfer.Row) error {
			return w.all(write{bucket: bTombstones, key: bytes.Clone(r.Run[:]), value: r.Rec}, write{bucket: bDeleted, key: append(timeBytes(nil, r.At), r.Run[:]...)})
		},
	},
	transfer.Holds:    ofRun(bHolds),
	transfer.Receipts: ofRun(bReceipts),
	transfer.Journal: {
		bJournal,
		func(r *transfer.Row) []byte { return u64(nil, r.Seq) },
		func(_ *transferReader, r *transfer.Row, key, val []byte) error {
			if len(key) != 8 {
				return intact(false)
			}
			r.Seq, r.Rec = binary.BigEndian.Uint64(key), bytes.Clone(val)
			return nil
		},
		func(w transferWriter, r *transfer.Row) error { return w.put(bJournal, u64(nil, r.Seq), r.Rec) },
	},
}

// intact is the error for a row that is not of the form that it should have.
func intact(ok bool) error {
	if !ok {
		return history.ErrCorrupt
	}
	return nil
}

func runKey(r *transfer.Row) []byte  { return bytes.Clone(r.Run[:]) }
func seqKey(r *transfer.Row) []byte  { return runSeqKey(r.Run, r.Seq) }
func textKey(r *transfer.Row) []byte { return runTextKey(r.Run, string(r.Key)) }

func timerOf(r *transfer.Row) history.Timer {
	return history.Timer{At: r.At, Position: history.Position(r.Key)}
}

// ofRun is a bucket with one record for each run, or hold.
func ofRun(b bucketID) transferTable {
	return transferTable{
		b, runKey,
		func(_ *transferReader, r *transfer.Row, key, val []byte) error {
			if len(key) != runLen {
				return intact(false)
			}
			r.Run, r.Rec = history.RunID(key), bytes.Clone(val)
			return nil
		},
		func(w transferWriter, r *transfer.Row) error { return w.put(b, runKey(r), r.Rec) },
	}
}

func readText(_ *transferReader, r *transfer.Row, key, val []byte) error {
	if len(key) < runLen {
		return intact(false)
	}
	r.Run, r.Key, r.Rec = history.RunID(key[:runLen]), bytes.Clone(key[runLen:]), bytes.Clone(val)
	return nil
}

// readTimed reads run16 | seq8 with at8 | record.
func readTimed(_ *transferReader, r *transfer.Row, key, val []byte) error {
	if len(key) != runLen+8 || len(val) < 8 {
		return intact(false)
	}
	r.Run, r.Seq, r.At = history.RunID(key[:runLen]), binary.BigEndian.Uint64(key[runLen:]), timeOf(val)
	if len(val) > 8 {
		r.Rec = bytes.Clone(val[8:])
	}
	return nil
}

func putTimed(b bucketID) func(w transferWriter, r *transfer.Row) error {
	return func(w transferWriter, r *transfer.Row) error {
		return w.put(b, seqKey(r), append(timeBytes(nil, r.At), r.Rec...))
	}
}

func readRun(v *transferReader, r *transfer.Row, key, val []byte) error {
	if len(key) != runLen {
		return intact(false)
	}
	state := v.get(bStates, key)
	if len(state) < 8 {
		return fmt.Errorf("its state is not there: %w", history.ErrCorrupt)
	}
	r.Run, r.Rec, r.At, r.State = history.RunID(key), bytes.Clone(val), timeOf(state), bytes.Clone(state[8:])
	return nil
}

// putRun puts the two halves of a run, and its rows in the indexes.
func (w transferWriter) putRun(r *transfer.Row) error {
	spec, err := history.Decode[history.Spec](w.codec, r.Rec)
	if err != nil {
		return err
	}
	state, err := history.Decode[history.State](w.codec, r.State)
	if err != nil {
		return err
	}
	id := bytes.Clone(r.Run[:])
	rows := []write{
		{bucket: bSpecs, key: id, value: r.Rec},
		{bucket: bStates, key: id, value: append(timeBytes(nil, r.At), r.State...)},
		{bucket: bStatus, key: statusKey(state.Status, r.Run)},
	}
	if spec.TaskID != "" {
		rows = append(rows, write{bucket: bTasks, key: []byte(spec.TaskID), value: id})
	}
	if r.At != 0 {
		ready := write{bucket: bReady, key: readyKey(&spec, r.At)}
		if state.Status == history.StatusBlocked {
			ready.value = u64(nil, state.Epoch)
		}
		rows = append(rows, ready)
	}
	for _, key := range listedRows(&spec) {
		rows = append(rows, write{bucket: bListed, key: key})
	}
	if b, key := expiryRow(&history.Run{Spec: spec, State: state}); key != nil && state.Status.Terminal() {
		rows = append(rows, write{bucket: b, key: key})
	}
	return w.all(rows...)
}

func readEvent(v *transferReader, r *transfer.Row, key, val []byte) error {
	if len(key) != runLen+8 {
		return intact(false)
	}
	r.Run, r.Seq = history.RunID(key[:runLen]), binary.BigEndian.Uint64(key[runLen:])
	if _, err := v.decodeEvent(r.Run, key, val); err != nil { // also where a payload is missing that was not erased
		return err
	}
	whole, _ := v.whole(r.Run, r.Seq, val)
	r.Rec = bytes.Clone(whole)
	return nil
}

// putEvent puts an event, its large payload apart, and the row that says that it was erased.
func (w transferWriter) putEvent(r *transfer.Row) error {
	e, _, err := w.codec.DecodeEvent(r.Rec)
	if err != nil {
		return err
	}
	rec, value := r.Rec, []byte{}
	if len(e.Payload) >= valueFrom {
		cut := len(rec) - len(e.Payload)
		rec, value = rec[:cut:cut], rec[cut:]
	}
	if len(value) > 0 || e.PayloadErased {
		if err := w.put(bValues, valueKey(r.Run, valueOfEvent, r.Seq), value); err != nil {
			return err
		}
	}
	return w.put(bEvents, seqKey(r), rec)
}

func readIdentity(v *transferReader, r *transfer.Row, key, val []byte) error {
	if len(key) <= runLen {
		return intact(false)
	}
	r.Run, r.Item, r.Key, r.Rec = history.RunID(key[:runLen]), history.InboxKind(key[runLen]), bytes.Clone(key[runLen+1:]), bytes.Clone(val)
	n := v.numberOf(r.Run, key[runLen:])
	r.Seq, r.At = n.n, n.at
	return nil
}

func (w transferWriter) putIdentity(r *transfer.Row) error {
	key := identityKey(r.Run, r.Item, string(r.Key))
	if r.Seq != 0 {
		if err := w.put(bIdentityLog, runSeqKey(r.Run, r.Seq), append(timeBytes(nil, r.At), key[runLen:]...)); err != nil {
			return err
		}
	}
	return w.put(bIdentities, key, r.Rec)
}
