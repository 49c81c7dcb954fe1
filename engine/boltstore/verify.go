package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Verify implements engine.Store. It may run while the store is written to: a run is compared with its rows within one
// read transaction, and no transaction lasts longer than a stretch and one run's rows.
func (s *Store) Verify(ctx context.Context, fn func(engine.Violation)) error {
	if err := s.verifyRuns(ctx, fn); err != nil {
		return err
	}
	for b := range nBuckets {
		if check := rowCheck(b); check != nil {
			if err := s.verifyRows(ctx, b, check, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// findings collects violations of one read transaction, to be told when it has ended.
type findings []engine.Violation

func (f *findings) add(id history.RunID, rule history.Rule, format string, args ...any) {
	*f = append(*f, engine.Violation{Run: id, Rule: string(rule), Detail: fmt.Sprintf(format, args...)})
}

func (f *findings) tell(fn func(engine.Violation)) {
	for _, v := range *f {
		fn(v)
	}
	*f = nil
}

// verifyRuns replays each run and compares it with its rows.
func (s *Store) verifyRuns(ctx context.Context, fn func(engine.Violation)) error {
	var found findings
	var last []byte
	var replay *history.Replay
	for more := true; more; {
		err := s.view(ctx, "verify", func(v *view) error {
			began := time.Now()
			c := v.bucket(bSpecs).Cursor()
			for k, _ := c.Seek(last); ; k, _ = c.Next() {
				switch {
				case k == nil:
					more = false
					return nil
				case len(k) != runLen:
					found.add(history.RunID{}, history.RuleRecord, "key %x in specs is no run id", k)
					continue
				case last != nil && replay == nil && bytes.Equal(k, last):
					continue // done in the transaction before
				}
				if replay != nil && replay.Seq() > 0 && !bytes.Equal(k, last) {
					replay = nil // the run that was to be continued is gone
				}
				last = bytes.Clone(k)
				from, err := v.replayOf(history.RunID(last))
				if err != nil {
					found.add(history.RunID(last), history.RuleRecord, "%v", err)
				}
				if replay == nil || replay.Seq() < from.Seq() { // the events in between were pruned meanwhile
					replay = from
				}
				if !v.verifyRun(history.RunID(last), replay, &found, began) {
					return nil // to be continued, with the same replay
				}
				replay = nil
				if time.Since(began) > readStretch {
					return nil
				}
			}
		})
		if err != nil {
			return err
		}
		found.tell(fn)
	}
	return nil
}

// verifyRun replays events until it has all, and then compares. It returns false where its time is up.
func (v *view) verifyRun(id history.RunID, replay *history.Replay, found *findings, began time.Time) (done bool) {
	n := 0
	for k, rec := range v.scan(bEvents, id[:], runSeqKey(id, replay.Seq()+1)) {
		if n++; n%readStep == 0 && time.Since(began) > readStretch {
			return false
		}
		if !bytes.Equal(k, runSeqKey(id, replay.Seq()+1)) {
			found.add(id, history.RuleChain, "after event %d comes key %x", replay.Seq(), k)
			return true
		}
		whole, erased := v.whole(id, replay.Seq()+1, rec)
		before := replay.Erased()
		if err := replay.Add(whole); err != nil {
			found.add(id, history.RuleChain, "%v", err)
			return true
		}
		if !erased && replay.Erased() > before {
			found.add(id, history.RuleChain, "the payload of event %d is not there, and was not erased", replay.Seq())
		}
	}
	f, err := v.facts(id)
	if err != nil {
		found.add(id, history.RuleRecord, "%v", err)
		return true
	}
	for _, x := range replay.Check(f) {
		found.add(id, x.Rule, "%s", x.Detail)
	}
	v.verifyIndexed(&f.Run, found)
	return true
}

// facts reads everything that the store keeps of a run beside its events.
func (v *view) facts(id history.RunID) (*history.Facts, error) {
	f := &history.Facts{Child: v.childStatus}
	var err error
	if f.Run, err = v.run(id); err != nil {
		return nil, err
	}
	if f.Timers, err = v.timers(id); err != nil {
		return nil, err
	}
	if f.Inbox, err = v.items(bInbox, id, 0); err != nil {
		return nil, err
	}
	if f.Dead, err = v.items(bDead, id, 0); err != nil {
		return nil, err
	}
	for k, rec := range v.scan(bInterrupts, id[:], nil) {
		q, err := history.Decode[history.Interrupt](v.codec, rec)
		if err != nil {
			return nil, fmt.Errorf("question %q: %w", k[runLen:], err)
		}
		f.Questions = append(f.Questions, q)
	}
	return f, nil
}

func (v *view) childStatus(id string) (history.Status, bool) {
	run, err := ulid.Parse(id)
	if err != nil {
		return 0, false
	}
	state, _, err := v.state(run)
	return state.Status, err == nil
}

// verifyIndexed proves that the rows that lead to a run are there.
func (v *view) verifyIndexed(run *history.Run, found *findings) {
	_, readyAt, err := v.state(run.ID)
	if err != nil {
		return // facts has read it
	}
	if (readyAt != 0) != run.Status.InLine() {
		found.add(run.ID, history.RuleIndex, "is %s and has ready time %s", run.Status, readyAt)
	}
	if readyAt != 0 && v.has(bExpiring) && v.get(bReady, readyKey(&run.Spec, readyAt)) == nil {
		found.add(run.ID, history.RuleIndex, "is %s and has no row in ready", run.Status)
	}
	if v.get(bStatus, statusKey(run.Status, run.ID)) == nil {
		found.add(run.ID, history.RuleIndex, "has no row in status for %s", run.Status)
	}
	if !keyFree(run.Status) && v.get(bKeys, tenantKey(run.Tenant, run.Key)) == nil {
		found.add(run.ID, history.RuleIndex, "its key %q has no row", run.Key)
	}
	if run.TaskID != "" && !bytes.Equal(v.get(bTasks, []byte(run.TaskID)), run.ID[:]) {
		found.add(run.ID, history.RuleIndex, "its task id does not lead to it")
	}
	v.verifyExpiry(run, found)
	v.verifyListed(run, found)
	for k := range v.scan(bRunTimers, run.ID[:], nil) {
		if _, t, ok := splitRunTimerKey(k); !ok || v.get(bTimers, timerKey(run.ID, t)) == nil {
			found.add(run.ID, history.RuleIndex, "timer %q at %s has no row in timers", t.Position, t.At)
		}
	}
}

// verifyRows checks that each row of an index leads to a record that agrees.
func (s *Store) verifyRows(ctx context.Context, b bucketID, check func(v *view, k, val []byte, found *findings), fn func(engine.Violation)) error {
	var found findings
	var last []byte
	for more := true; more; {
		err := s.view(ctx, "verify", func(v *view) error {
			began, n := time.Now(), 0
			if !v.has(b) {
				more = false
				return nil
			}
			c := v.bucket(b).Cursor()
			k, val := c.Seek(last)
			for ; k != nil; k, val = c.Next() {
				if last != nil && bytes.Equal(k, last) {
					continue
				}
				check(v, k, val, &found)
				last = append(last[:0], k...)
				if n++; n%readStep == 0 && time.Since(began) > readStretch {
					return nil
				}
			}
			more = false
			return nil
		})
		if err != nil {
			return err
		}
		found.tell(fn)
	}
	return nil
}

// rowCheck returns the check of one row of a bucket; nil for a bucket without one.
func rowCheck(b bucketID) func(v *view, k, val []byte, found *findings) {
	switch b {
	case bEvents, bStates, bRunTimers, bInbox, bDead, bIdentities, bInterrupts, bAnswered:
		return func(v *view, k, _ []byte, found *findings) { v.verifyOwner(b, k, found) }
	case bValues:
		return verifyValue
	case bKeys:
		return verifyKeyRow
	case bTasks:
		return verifyTaskRow
	case bReady:
		return verifyReadyRow
	case bStatus:
		return verifyStatusRow
	case bListed:
		return verifyListedRow
	case bTimers:
		return verifyTimerRow
	case bDefinitions:
		return verifyDefinitionRow
	case bDigests:
		return verifyDigestRow
	}
	return retentionCheck(b)
}

// verifyOwner checks that a key that begins with a run id is of a run that there is.
func (v *view) verifyOwner(b bucketID, k []byte, found *findings) {
	if len(k) < runLen {
		found.add(history.RunID{}, history.RuleIndex, "key %x in %s is cut short", k, b)
		return
	}
	id := history.RunID(k[:runLen])
	if v.get(bSpecs, id[:]) == nil && !v.leftBehind(b, id) {
		found.add(id, history.RuleIndex, "key %x in %s is of no run", k, b)
	}
	numbered := b == bEvents || b == bInbox || b == bDead || b == bIdentityLog
	if numbered && (len(k) != runLen+8 || binary.BigEndian.Uint64(k[runLen:]) == 0) {
		found.add(id, history.RuleIndex, "key %x in %s has no sequence", k, b)
	}
}

// runOf reads the run that a row leads to.
func (v *view) runOf(b bucketID, id []byte, found *findings) (history.Run, history.Time, bool) {
	if len(id) != runLen {
		found.add(history.RunID{}, history.RuleIndex, "row in %s leads to %x, which is no run id", b, id)
		return history.Run{}, 0, false
	}
	run, err := v.run(history.RunID(id))
	if errors.Is(err, history.ErrNotFound) {
		found.add(history.RunID(id), history.RuleIndex, "row in %s leads to no run", b)
	}
	if err != nil {
		return run, 0, false // verifyRuns names a damaged one
	}
	_, readyAt, err := v.state(run.ID)
	return run, readyAt, err == nil
}

func verifyKeyRow(v *view, k, val []byte, found *findings) {
	if len(val) == runLen && v.verifyKeyOfDeleted(k, history.RunID(val), found) {
		return
	}
	run, _, ok := v.runOf(bKeys, val, found)
	if ok && !bytes.Equal(k, tenantKey(run.Tenant, run.Key)) {
		found.add(run.ID, history.RuleIndex, "row %x in keys leads to it, its key is %q", k, run.Key)
	}
}

func verifyTaskRow(v *view, k, val []byte, found *findings) {
	run, _, ok := v.runOf(bTasks, val, found)
	if ok && string(k) != run.TaskID {
		found.add(run.ID, history.RuleIndex, "a row in tasks leads to it, its task id is another")
	}
}

func verifyReadyRow(v *view, k, val []byte, found *findings) {
	if !v.has(bExpiring) {
		return // of format 1: an upgrade writes it anew
	}
	if len(k) < readySuffix {
		found.add(history.RunID{}, history.RuleIndex, "key %x in ready is cut short", k)
		return
	}
	run, readyAt, ok := v.runOf(bReady, k[len(k)-runLen:], found)
	switch {
	case !ok:
	case !run.Status.InLine() || !bytes.Equal(k, readyKey(&run.Spec, readyAt)):
		found.add(run.ID, history.RuleIndex, "is %s and has a row %x in ready", run.Status, k)
	case run.Status == history.StatusBlocked && !bytes.Equal(val, u64(nil, run.Epoch)):
		found.add(run.ID, history.RuleIndex, "blocked in epoch %d, its row in ready says %x", run.Epoch, val)
	case run.Status != history.StatusBlocked && len(val) != 0:
		found.add(run.ID, history.RuleIndex, "is %s, its row in ready says blocked in %x", run.Status, val)
	}
}

func verifyStatusRow(v *view, k, _ []byte, found *findings) {
	if len(k) != 1+runLen {
		found.add(history.RunID{}, history.RuleIndex, "key %x in status has %d bytes", k, len(k))
		return
	}
	if run, _, ok := v.runOf(bStatus, k[1:], found); ok && k[0] != statusClass(run.Status) {
		found.add(run.ID, history.RuleIndex, "is %s and has a row in status for %s", run.Status, history.Status(k[0]))
	}
}

func verifyTimerRow(v *view, k, _ []byte, found *findings) {
	id, t, ok := splitTimerKey(k)
	if !ok || v.get(bRunTimers, runTimerKey(id, t)) == nil {
		found.add(id, history.RuleIndex, "row %x in timers is no timer of the run", k)
	}
}

func verifyDefinitionRow(v *view, k, val []byte, found *findings) {
	name, version, ok := splitDefinitionKey(k)
	if d := v.get(bDigests, digestKey(name, history.Sum(val))); !ok || len(d) != 4 || int(binary.BigEndian.Uint32(d)) != version {
		found.add(history.RunID{}, history.RuleIndex, "definition %q version %d is not found by its digest", name, version)
	}
}

func verifyDigestRow(v *view, k, val []byte, found *findings) {
	i := len(k) - len(history.Digest{}) - 1
	if i < 1 || len(val) != 4 {
		found.add(history.RunID{}, history.RuleIndex, "row %x in digests is cut short", k)
		return
	}
	data := v.get(bDefinitions, definitionKey(string(k[:i]), int(binary.BigEndian.Uint32(val))))
	if sum := history.Sum(data); data == nil || !bytes.Equal(sum[:], k[i+1:]) {
		found.add(history.RunID{}, history.RuleIndex, "digest of %q leads to another definition", k[:i])
	}
}
