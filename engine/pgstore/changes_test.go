package pgstore_test

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/history"
)

// change is one call of a write, which a caller repeats until it is told of its success.
type change struct {
	// call calls it. again says that it was called before, and that nobody knows what became of that.
	call func(ctx context.Context, again bool) error
	// once checks that it has happened, and once.
	once func()
	// seen reads what the call changes, where the store itself finds out what became of a call; nil: it does not.
	seen func() any
}

// accepting takes an error for a success where the call before, which nobody was told of, explains it.
func accepting(again bool, err error, explained ...error) error {
	for _, e := range explained {
		if again && errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// changes are all the writes of a store. Each makes what it is about.
func changes() map[string]func(b *broken) change {
	return map[string]func(b *broken) change{
		"Start": func(b *broken) change {
			key := b.fresh()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, _, err := b.store.Start(ctx, &history.Start{Spec: history.Spec{Key: key, Workflow: "w", Version: 1}, Input: []byte("1")})
					return err
				},
				once: func() {
					run, err := b.direct.RunByKey(b.Context(), "", key)
					b.ok(err)
					b.want("events", len(b.events(run.ID)), 1)
				},
			}
		},
		"StartClaimed": func(b *broken) change {
			key := b.fresh()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, _, _, err := b.store.StartClaimed(ctx, &history.Start{Spec: history.Spec{Key: key, Workflow: "w", Version: 1}, Input: []byte("1")}, "me", time.Minute)
					return err
				},
				once: func() {
					run, err := b.direct.RunByKey(b.Context(), "", key)
					b.ok(err)
					b.want("events", len(b.events(run.ID)), 1)
				},
			}
		},
		"Deliver": func(b *broken) change {
			run := b.begin()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Deliver(ctx, run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "mail", Key: "a", Payload: []byte("1")})
					return err
				},
				once: func() { b.want("items", len(b.inbox(run.ID)), 1) },
			}
		},
		"Deliver to a run that is over": func(b *broken) change {
			run := b.finished()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Deliver(ctx, run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "mail", Key: "a", Payload: []byte("1")})
					return err
				},
				once: func() { b.want("dead letters", len(b.deadLetters(run.ID)), 1) },
			}
		},
		"Answer": func(b *broken) change {
			c := b.take()
			batch := after(c, history.NextWaiting, history.Event{Kind: history.InterruptOpened, Position: "q", Op: "ask", Key: "q"})
			batch.Open = []history.Interrupt{{Key: "q", Position: "q", Method: history.MethodQuestion}}
			_, err := b.direct.Commit(b.Context(), batch)
			b.ok(err)
			return change{
				call: func(ctx context.Context, again bool) error {
					err := b.store.Answer(ctx, c.Run.ID, history.InboxItem{Kind: history.InboxAnswer, Key: "q", Payload: []byte("1")})
					return accepting(again, err, history.ErrAnswered)
				},
				once: func() { b.want("answers", len(b.inbox(c.Run.ID)), 1) },
			}
		},
		"Cancel": func(b *broken) change {
			c := b.take()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Cancel(ctx, c.Run.ID, "me", "test")
					return err
				},
				once: func() { b.want("requests", len(b.inbox(c.Run.ID)), 1) },
			}
		},
		"Cancel of a run that nobody has claimed": func(b *broken) change {
			run := b.begin()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Cancel(ctx, run.ID, "me", "test")
					return err
				},
				once: func() { b.want("ends", b.count(run.ID, history.RunCanceled), 1) },
			}
		},
		"Terminate": func(b *broken) change {
			c := b.take()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Terminate(ctx, c.Run.ID, "me", "test")
					return err
				},
				once: func() { b.want("ends", b.count(c.Run.ID, history.RunFailed), 1) },
			}
		},
		"Pause": func(b *broken) change {
			c := b.take()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Pause(ctx, c.Run.ID, "me", "test")
					return err
				},
				once: func() { b.want("operator's events", b.count(c.Run.ID, history.OperatorActed), 1) },
			}
		},
		"Resume": func(b *broken) change {
			run := b.begin()
			_, err := b.direct.Pause(b.Context(), run.ID, "me", "test")
			b.ok(err)
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Resume(ctx, run.ID, "me", "test")
					return err
				},
				once: func() { b.want("operator's events", b.count(run.ID, history.OperatorActed), 2) },
			}
		},
		"Redeliver": func(b *broken) change {
			from, to := b.finished(), b.begin()
			_, err := b.direct.Deliver(b.Context(), from.ID, history.InboxItem{Kind: history.InboxSignal, Name: "mail", Key: "a", Payload: []byte("1")})
			b.ok(err)
			seq := b.deadLetters(from.ID)[0].Seq
			return change{
				call: func(ctx context.Context, again bool) error {
					_, err := b.store.Redeliver(ctx, from.ID, seq, to.ID, "me")
					return accepting(again, err, history.ErrNotFound)
				},
				once: func() {
					b.want("items", len(b.inbox(to.ID)), 1)
					b.want("dead letters", len(b.deadLetters(from.ID)), 0)
				},
			}
		},
		"PutDefinition": func(b *broken) change {
			name := b.fresh()
			return change{
				call: func(ctx context.Context, _ bool) error {
					v, err := b.store.PutDefinition(ctx, name, []byte("text"))
					if err == nil {
						b.want("version", v, 1)
					}
					return err
				},
				once: func() {
					n := 0
					b.ok(b.direct.Definitions(b.Context(), func(found string, _ int, _ []byte) error {
						if found == name {
							n++
						}
						return nil
					}))
					b.want("definitions", n, 1)
				},
			}
		},
		"Secret": func(b *broken) change {
			name := b.fresh()
			var got []byte
			return change{
				call: func(ctx context.Context, _ bool) (err error) { got, err = b.store.Secret(ctx, name); return err },
				once: func() {
					kept, err := b.direct.Secret(b.Context(), name)
					b.ok(err)
					b.want("secret", got, kept)
				},
			}
		},
		"Claim": func(b *broken) change {
			run := b.begin()
			return change{
				call: func(ctx context.Context, _ bool) error { _, err := b.store.Claim(ctx, claimOf(run)); return err },
				once: func() { // one that nobody was told of runs out
					b.want("status", b.run(run.ID).Status, history.StatusRunning)
					claims, err := b.direct.Claim(b.Context(), claimOf(run))
					b.ok(err)
					b.want("other claims", len(claims), 0)
				},
			}
		},
		"Renew": func(b *broken) change {
			c := b.take()
			return change{
				call: func(ctx context.Context, _ bool) error {
					lost, err := b.store.Renew(ctx, "me", time.Hour, map[history.RunID]history.Token{c.Run.ID: c.Token})
					b.want("lost", len(lost), 0)
					return err
				},
				once: func() { b.held(c) },
			}
		},
		"Commit":                                  func(b *broken) change { return b.commitsStep(b.take()) },
		"Commit of a run that was claimed here":   func(b *broken) change { return b.commitsStep(b.takeHere()) },
		"Commit of the end":                       func(b *broken) change { return b.commitsEnd(b.take()) },
		"Commit of the end of a run claimed here": func(b *broken) change { return b.commitsEnd(b.takeHere()) },
		"Commit with a child": func(b *broken) change {
			c := b.take()
			child := history.NewRunID(c.Now)
			batch := after(c, history.NextWaiting, history.Event{Kind: history.ChildStarted, Position: "c#0", Op: "child", Name: "child", Key: child.String()})
			batch.Children = []history.Start{{Spec: history.Spec{ID: child, Key: "child of " + c.Run.Key, Workflow: "w", Version: 1}}}
			return change{
				seen: b.head(c.Run.ID),
				call: func(ctx context.Context, again bool) error {
					_, err := b.store.Commit(ctx, batch)
					return accepting(again, err, history.ErrSequence, history.ErrFenced)
				},
				once: func() {
					b.want("children", b.count(c.Run.ID, history.ChildStarted), 1)
					b.want("events of the child", len(b.events(child)), 1)
				},
			}
		},
		"Commit without an event": func(b *broken) change {
			c := b.take()
			batch := after(c, history.NextReady)
			return change{
				call: func(ctx context.Context, again bool) error {
					_, err := b.store.Commit(ctx, batch)
					return accepting(again, err, history.ErrFenced) // the lease is given up
				},
				once: func() { b.want("status", b.run(c.Run.ID).Status, history.StatusReady) },
			}
		},
		"Release": func(b *broken) change {
			c := b.take()
			return change{
				call: func(ctx context.Context, again bool) error {
					return accepting(again, b.store.Release(ctx, c.Run.ID, c.Token, 0, "given back"), history.ErrFenced)
				},
				once: func() { b.want("status", b.run(c.Run.ID).Status, history.StatusReady) },
			}
		},
		"WakeDue": func(b *broken) change {
			c := b.take()
			batch := after(c, history.NextWaiting)
			batch.Set = []history.Timer{{At: b.direct.Now().Add(20 * time.Millisecond), Position: "t"}}
			_, err := b.direct.Commit(b.Context(), batch)
			b.ok(err)
			b.passes(batch.Set[0].At)
			return change{
				call: func(ctx context.Context, _ bool) error { _, _, err := b.store.WakeDue(ctx, 10); return err },
				once: func() { b.want("status", b.run(c.Run.ID).Status, history.StatusReady) },
			}
		},
		"WakeClaimed": func(b *broken) change {
			c := b.take()
			batch := after(c, history.NextWaiting)
			batch.Set = []history.Timer{{At: b.direct.Now().Add(20 * time.Millisecond), Position: "t"}}
			_, err := b.direct.Commit(b.Context(), batch)
			b.ok(err)
			b.passes(batch.Set[0].At)
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, _, _, err := b.store.WakeClaimed(ctx, 10, claimOf(c.Run))
					return err
				},
				once: func() { b.want("status", b.run(c.Run.ID).Status, history.StatusRunning) },
			}
		},
		"ExpireLeases": func(b *broken) change {
			run := b.begin()
			req := claimOf(run)
			req.TTL = 1
			_, err := b.direct.Claim(b.Context(), req)
			b.ok(err)
			b.passes(b.direct.Now() + 1)
			return change{
				call: func(ctx context.Context, _ bool) error { _, err := b.store.ExpireLeases(ctx); return err },
				once: func() { b.want("status", b.run(run.ID).Status, history.StatusReady) },
			}
		},
		"PlaceHold": func(b *broken) change {
			run := b.begin()
			hold := history.Hold{ID: run.ID, Scope: history.HoldRun, Run: run.ID, By: "me", Reason: "test"}
			return change{
				call: func(ctx context.Context, again bool) error {
					_, err := b.store.PlaceHold(ctx, hold)
					return accepting(again, err, history.ErrConflict)
				},
				once: func() { b.want("entries", b.journaled("place hold", run.ID), 1) },
			}
		},
		"PlaceHold without an id": func(b *broken) change {
			run := b.begin()
			hold := history.Hold{Scope: history.HoldRun, Run: run.ID, By: "me", Reason: "test"}
			return change{
				seen: func() any { return b.holdsOn(run.ID) },
				call: func(ctx context.Context, again bool) (err error) {
					hold, err = b.store.PlaceHold(ctx, hold)
					return accepting(again, err, history.ErrConflict)
				},
				once: func() {
					b.want("holds", b.holdsOn(run.ID), 1)
					b.want("entries", b.journaled("place hold", hold.ID), 1)
				},
			}
		},
		"ReleaseHold": func(b *broken) change {
			run := b.begin()
			_, err := b.direct.PlaceHold(b.Context(), history.Hold{ID: run.ID, Scope: history.HoldRun, Run: run.ID, By: "me", Reason: "test"})
			b.ok(err)
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.ReleaseHold(ctx, run.ID, "me", "over")
					return err
				},
				once: func() { b.want("entries", b.journaled("release hold", run.ID), 1) },
			}
		},
		"PutReceipt": func(b *broken) change {
			run := b.finished()
			return change{
				call: func(ctx context.Context, _ bool) error { return b.store.PutReceipt(ctx, receipt(run)) },
				once: func() {
					r, err := b.direct.Receipt(b.Context(), run.ID)
					b.ok(err)
					b.want("covers", r.Covers(run.Head), true)
				},
			}
		},
		"LeaseCleanup": func(b *broken) change {
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.LeaseCleanup(ctx, "cleaner", time.Minute)
					return err
				},
				once: func() {
					_, err := b.direct.LeaseCleanup(b.Context(), "another", time.Minute)
					b.want("another is refused", errors.Is(err, history.ErrFenced), true)
				},
			}
		},
		"Delete": func(b *broken) change {
			run, token := b.finished(), b.cleaner()
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.Delete(ctx, token, nil, []history.RunID{run.ID})
					return err
				},
				once: func() {
					_, err := b.direct.Tombstone(b.Context(), run.ID)
					b.ok(err)
					_, err = b.direct.Run(b.Context(), run.ID)
					b.want("the run is gone", errors.Is(err, history.ErrExpired), true)
				},
			}
		},
		"ErasePayloads": func(b *broken) change {
			run := b.finished()
			b.want("has a payload", b.payloads(run.ID) > 0, true)
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.ErasePayloads(ctx, run.ID, "me", "test")
					return err
				},
				once: func() {
					b.want("payloads", b.payloads(run.ID), 0)
					b.want("entries", b.journaled(history.EntryErase, run.ID), 1)
				},
			}
		},
		"Prune": func(b *broken) change {
			c := b.take()
			_, err := b.direct.Commit(b.Context(), after(c, history.NextReady, history.Event{Kind: history.RunContinued, Payload: []byte("2")}))
			b.ok(err)
			end, token := b.run(c.Run.ID), b.cleaner()
			b.passes(end.UpdatedAt + 1)
			return change{
				call: func(ctx context.Context, again bool) error {
					_, err := b.store.Prune(ctx, token, history.RetentionPolicy{{KeepGenerations: 1}}, []history.RunID{end.ID}, "me", "test")
					return err
				},
				once: func() {
					b.want("first event", b.events(end.ID)[0].Kind, history.RunContinued)
					b.want("entries", b.journaledFrom("prune generations", end.ID), 1)
				},
			}
		},
		"PurgeTombstones": func(b *broken) change {
			run, token := b.finished(), b.cleaner()
			b.ok(b.direct.PutReceipt(b.Context(), receipt(run)))
			_, err := b.direct.Delete(b.Context(), token, nil, []history.RunID{run.ID})
			b.ok(err)
			return change{
				call: func(ctx context.Context, _ bool) error {
					_, err := b.store.PurgeTombstones(ctx, token, history.RetentionPolicy{{KeepTombstones: 1}}, []history.RunID{run.ID}, "me", "test")
					return err
				},
				once: func() { b.want("entries", b.journaledFrom("purge tombstones", run.ID), 1) },
			}
		},
	}
}

func (b *broken) commitsStep(c history.Claim) change {
	batch := after(c, history.NextRunning, history.Event{Kind: history.StepCompleted, Position: "s#0", Op: "step", Name: "s"})
	return change{
		seen: b.head(c.Run.ID),
		call: func(ctx context.Context, again bool) error {
			_, err := b.store.Commit(ctx, batch)
			return accepting(again, err, history.ErrSequence, history.ErrFenced)
		},
		once: func() {
			b.want("results", b.count(c.Run.ID, history.StepCompleted), 1)
			_, err := b.store.Commit(b.Context(), batch)
			b.want("a repetition is refused", errors.Is(err, history.ErrSequence), true)
		},
	}
}

func (b *broken) commitsEnd(c history.Claim) change {
	batch := after(c, history.NextClosed, history.Event{Kind: history.RunCompleted})
	return change{
		seen: b.head(c.Run.ID),
		call: func(ctx context.Context, again bool) error {
			_, err := b.store.Commit(ctx, batch)
			return accepting(again, err, history.ErrSequence, history.ErrFenced)
		},
		once: func() {
			b.want("ends", b.count(c.Run.ID, history.RunCompleted), 1)
			_, err := b.store.Commit(b.Context(), batch)
			b.want("a repetition is refused", errors.Is(err, history.ErrTerminal), true)
		},
	}
}
