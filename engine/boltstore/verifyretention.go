package boltstore

import (
	"bytes"
	"slices"

	"github.com/perdure/perdure/history"
)

// retentionCheck returns the check of one row of a bucket of retention; nil for a bucket without one.
func retentionCheck(b bucketID) func(v *view, k, val []byte, found *findings) {
	switch b {
	case bExpiring, bClosed:
		return func(v *view, k, _ []byte, found *findings) { v.verifyExpiryRow(b, k, found) }
	case bTombstones:
		return verifyTombstone
	case bDeleted:
		return verifyDeletedRow
	case bIdentityLog:
		return verifyIdentityLog
	case bGenerations:
		return verifyGenerationRow
	case bBases:
		return verifyBase
	case bErasing:
		return verifyErasingRow
	case bReceipts:
		return verifyReceipt
	case bHolds:
		return verifyRecord[history.Hold](b)
	case bJournal:
		return verifyRecord[history.Entry](b)
	}
	return nil
}

func verifyRecord[R history.Record](b bucketID) func(v *view, k, val []byte, found *findings) {
	return func(v *view, k, val []byte, found *findings) {
		if _, err := history.Decode[R](v.codec, val); err != nil {
			found.add(history.RunID{}, history.RuleRecord, "row %x in %s: %v", k, b, err)
		}
	}
}

// keyFree reports whether a run of that status may have no row for its key: another run may have taken the key over,
// and the row went with the tombstone of that one.
func keyFree(s history.Status) bool { return s == history.StatusFailed || s == history.StatusCanceled }

// leftBehind reports whether a row may be there though its run is deleted: Erase has not come to it yet.
func (v *view) leftBehind(b bucketID, id history.RunID) bool {
	return slices.Contains(erased(), b) && v.get(bErasing, id[:]) != nil
}

// verifyExpiry proves that a run that is over is found when its time is over, and no other is.
func (v *view) verifyExpiry(run *history.Run, found *findings) {
	if b, key := expiryRow(run); v.has(b) && key != nil && run.Status.Terminal() && v.get(b, key) == nil {
		found.add(run.ID, history.RuleIndex, "is %s and has no row in %s", run.Status, b)
	}
}

func (v *view) verifyExpiryRow(b bucketID, k []byte, found *findings) {
	if len(k) < 8+runLen {
		found.add(history.RunID{}, history.RuleIndex, "key %x in %s is cut short", k, b)
		return
	}
	run, _, ok := v.runOf(b, k[len(k)-runLen:], found)
	if !ok {
		return
	}
	if in, key := expiryRow(&run); in != b || !bytes.Equal(key, k) || !run.Status.Terminal() {
		found.add(run.ID, history.RuleIndex, "is %s and has a row %x in %s", run.Status, k, b)
	}
}

// verifyKeyOfDeleted checks the row of a key whose newest run is deleted; false where it is not.
func (v *view) verifyKeyOfDeleted(k []byte, id history.RunID, found *findings) bool {
	t, ok, err := v.tombstone(id)
	if err != nil || !ok {
		return false
	}
	if !bytes.Equal(k, tenantKey(t.Tenant, t.Key)) {
		found.add(id, history.RuleIndex, "row %x in keys leads to its tombstone, its key was %q", k, t.Key)
	}
	return true
}

func verifyTombstone(v *view, k, _ []byte, found *findings) {
	if len(k) != runLen {
		found.add(history.RunID{}, history.RuleIndex, "key %x in tombstones is no run id", k)
		return
	}
	id := history.RunID(k)
	t, _, err := v.tombstone(id)
	switch {
	case err != nil:
		found.add(id, history.RuleRecord, "%v", err)
	case t.Run != id || !t.Status.Terminal():
		found.add(id, history.RuleTombstone, "its tombstone is of run %s, which was %s", t.Run, t.Status)
	case v.get(bSpecs, k) != nil || v.get(bStates, k) != nil:
		found.add(id, history.RuleTombstone, "it has a tombstone and is there")
	case v.get(bDeleted, append(timeBytes(nil, t.DeletedAt), k...)) == nil:
		found.add(id, history.RuleIndex, "its tombstone has no row in deleted")
	case !keyFree(t.Status) && v.get(bKeys, tenantKey(t.Tenant, t.Key)) == nil:
		found.add(id, history.RuleIndex, "it is deleted, and its key %q has no row: a late duplicate would start anew", t.Key)
	case t.TaskID != "" && bytes.Equal(v.get(bTasks, []byte(t.TaskID)), k):
		found.add(id, history.RuleIndex, "it is deleted, and its task id leads to it")
	}
}

func verifyDeletedRow(v *view, k, _ []byte, found *findings) {
	if len(k) != 8+runLen {
		found.add(history.RunID{}, history.RuleIndex, "key %x in deleted has %d bytes", k, len(k))
		return
	}
	id := history.RunID(k[8:])
	if t, ok, err := v.tombstone(id); err == nil && (!ok || t.DeletedAt != timeOf(k)) {
		found.add(id, history.RuleIndex, "row %x in deleted leads to no tombstone of that time", k)
	}
}

func verifyErasingRow(v *view, k, _ []byte, found *findings) {
	if len(k) != runLen || v.get(bTombstones, k) == nil && v.get(bBases, k) == nil {
		found.add(history.RunID{}, history.RuleTombstone, "row %x in erasing is of no run that was deleted or pruned", k)
	}
}

// verifyIdentityLog proves that an identity which is to be forgotten one day is there.
func verifyIdentityLog(v *view, k, val []byte, found *findings) {
	v.verifyOwner(bIdentityLog, k, found)
	if len(k) != runLen+8 || v.leftBehind(bIdentityLog, history.RunID(k[:runLen])) {
		return
	}
	if len(val) < 9 || v.get(bIdentities, runTextKey(history.RunID(k[:runLen]), string(val[8:]))) == nil {
		found.add(history.RunID(k[:runLen]), history.RuleIndex, "row %x in identitylog leads to no identity", k)
	}
}

func verifyReceipt(v *view, k, val []byte, found *findings) {
	if len(k) != runLen || v.get(bSpecs, k) == nil && v.get(bTombstones, k) == nil {
		found.add(history.RunID{}, history.RuleIndex, "row %x in receipts is of no run", k)
		return
	}
	if _, _, err := v.receipt(history.RunID(k)); err != nil {
		found.add(history.RunID(k), history.RuleRecord, "%v", err)
	}
}
