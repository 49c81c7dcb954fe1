package mutationtest

import "github.com/perdure/perdure/engine/internal/overlay"

// A mutation is a bug that somebody could write.
type mutation struct {
	// bug says what the code then does, and part which part of the suite finds that.
	bug, part string
	edits     []overlay.Edit
	// pkg is the folder of the tests that find it, and run their names, as go test's -run has them.
	pkg, run string
	// also names other parts that find it, which are not run here.
	also string
}

// The parts of the suite.
const (
	contract = "the store's contract"
	behavior = "the engine's behaviour"
	kernel   = "the kernel's recordings"
	formats  = "the formats' golden files"
	faults   = "the store's faults"
	frontEnd = "the MCP front end"
	crash    = "the crash matrix"
	network  = "PostgreSQL behind a network that fails"
	simulate = "the simulation"
	soak     = "the soak"

	// What these two find is not run here: they need FUSE.
	diskFaults = "the disk's faults"
	powerLoss  = "the power cuts"
)

// mutations is the list: each bug with the test that finds it. The quickest that does is the one that is run.
func mutations() []mutation {
	const store, core, database = "engine/boltstore/", "workflow/kernel/", "engine/pgstore/"
	return []mutation{
		// Ownership.
		{
			bug: "a stale holder's token is not looked at", part: contract, also: behavior,
			edits: []overlay.Edit{{File: store + "leases.go", Old: "case l.token != token || l.ended:", New: "case l.ended:"}},
			pkg:   store, run: "TestContract/leases/a_worker_that_comes_back",
		},
		{
			bug: "a lease never runs out", part: contract, also: behavior,
			edits: []overlay.Edit{{File: store + "leases.go", Old: "if l.expires <= now && !l.ended {", New: "if l.expires <= 0 && !l.ended {"}},
			pkg:   store, run: "TestContract/leases/the_expiry_of_a_lease",
		},
		{
			bug: "opening the store does not raise its epoch", part: contract, also: crash,
			edits: []overlay.Edit{{File: store + "open.go", Old: "m.epoch = max(m.epoch+1, uint64(o.Clock().UnixMilli()))", New: "m.epoch = max(m.epoch, 1)"}},
			pkg:   store, run: "TestContract/leases/tokens_grow|TestEpochOutlivesAnOlderClock",
		},
		// Durability.
		{
			bug: "a write is acknowledged before its transaction is committed", part: faults, also: crash,
			edits: []overlay.Edit{
				{File: store + "committer.go", Old: "\t\terr = s.persist()\n", New: "\t\tfor _, o := range group {\n\t\t\tclose(o.done)\n\t\t}\n\t\terr = s.persist()\n"},
				{File: store + "committer.go", Old: "\tfor _, o := range pending {\n\t\tclose(o.done)\n", New: "\tfor _, o := range pending {\n\t\tselect {\n\t\tcase <-o.done:\n\t\t\tcontinue\n\t\tdefault:\n\t\t}\n\t\tclose(o.done)\n"},
			},
			pkg: store, run: "TestNothingIsAcknowledgedBeforeItIsCommitted",
		},
		{
			bug: "the store goes on after an I/O error in a commit", part: faults,
			edits: []overlay.Edit{{File: store + "committer.go", Old: "\t\treturn fmt.Errorf(\"%w: %w\", history.ErrFull, err)\n\t}\n\treturn s.fail(err)\n", New: "\t\treturn fmt.Errorf(\"%w: %w\", history.ErrFull, err)\n\t}\n\treturn err\n"}},
			pkg:   store, run: "TestAnIOErrorInACommitIsFatal",
		},
		{
			bug: "a refused write leaves what it had staged", part: faults, also: contract,
			edits: []overlay.Edit{{File: store + "committer.go", Old: "\t\t\t\tst.drop()\n\t\t\t\tcontinue\n", New: "\t\t\t\tst.drop()\n"}},
			pkg:   store, run: "TestAnOpThatBreaksLeavesItsGroupAlone",
		},
		// The log.
		{
			bug: "a write is acknowledged before its record in the log is synced", part: faults, also: powerLoss,
			edits: []overlay.Edit{{File: store + "redo.go", Old: "\tif err := dataSync(r.file); err != nil {\n", New: "\tif err := dataSync(r.file); err != nil && r.seq == 0 {\n"}},
			pkg:   store, run: "TestNothingIsAcknowledgedBeforeItsRecordIsSynced",
		},
		{
			bug: "a store that has failed is flushed", part: faults,
			edits: []overlay.Edit{
				{File: store + "flush.go", Old: "\tif f := s.failure.Load(); f != nil {\n\t\treturn *f\n\t}\n\tif s.work.writing.tx != nil {", New: "\tif s.work.writing.tx != nil {"},
				{File: store + "committer.go", Old: "lacking() && s.failure.Load() == nil; behind", New: "lacking(); behind"},
			},
			pkg: store, run: "TestAFailedStoreIsNotFlushed",
		},
		{
			bug: "the log is used again before its flush is durable", part: faults,
			edits: []overlay.Edit{{File: store + "flush.go", Old: "\tif err := guard(tx.Commit); err != nil {\n", New: "\tr.rewind()\n\tif err := guard(tx.Commit); err != nil {\n"}},
			pkg:   store, run: "TestNothingIsReusedBeforeTheFlushIsDurable|TestAFlushWithoutRoom",
		},
		{
			bug: "records that the file has are applied to it again", part: faults,
			edits: []overlay.Edit{
				{File: store + "recover.go", Old: "return r.id == id && r.seq == next })", New: "return r.id == id })"},
				{File: store + "recover.go", Old: "if err == nil && seq >= next {", New: "if err == nil && seq >= next && len(recs) == 0 {"},
			},
			pkg: store, run: "TestAnOlderLapIsNotReplayed",
		},
		{
			bug: "the first record of the log is skipped", part: faults, also: crash,
			edits: []overlay.Edit{{File: store + "recover.go", Old: "\t\trecs = append(recs, r)\n", New: "\t\tif r.seq > applied+1 {\n\t\t\trecs = append(recs, r)\n\t\t}\n"}},
			pkg:   store, run: "TestTheLogHasWhatWasAcknowledged",
		},
		{
			bug: "a bad record in the middle of the log ends it", part: faults, also: diskFaults,
			edits: []overlay.Edit{{File: store + "recover.go", Old: "if err == nil && seq >= next {", New: "if err == nil && seq > 1<<63 {"}},
			pkg:   store, run: "TestADamagedLogIsRefused",
		},
		{
			bug: "a log that is not there is taken for an empty one", part: faults, also: diskFaults,
			edits: []overlay.Edit{{File: store + "recover.go", Old: "\tcase id == 0:\n", New: "\tcase err != nil:\n"}},
			pkg:   store, run: "TestADamagedLogIsRefused",
		},
		{
			bug: "a reader does not wait for what is in the log", part: faults, also: contract,
			edits: []overlay.Edit{{File: store + "store.go", Old: "\treturn s.readAfter(ctx, s.catchUp, fn)\n", New: "\treturn s.readFile(fn)\n"}},
			pkg:   store, run: "TestReadersFindWhatWasAcknowledged",
		},
		{
			bug: "a run is woken under the hands of the group that writes it", part: faults,
			edits: []overlay.Edit{{File: store + "recent.go", Old: "\ts.staged[id] = true\n", New: ""}},
			pkg:   store, run: "TestARunThatAGroupHasLoadedIsWokenAfterIt",
		},
		{
			bug: "a run is woken by what it was before it was written", part: faults,
			edits: []overlay.Edit{{File: store + "publish.go", Old: "\tdelete(s.rousing, w.id)\n", New: ""}},
			pkg:   store, run: "TestARunThatIsWrittenWhileItIsReadIsLeftAlone",
		},
		{
			bug: "the holder of a run that a timer woke finds it not yet due", part: faults,
			edits: []overlay.Edit{{File: store + "leases.go", Old: "p.at = max(s.readTimeLocked(), woken)", New: "p.at = s.readTimeLocked()"}},
			pkg:   store, run: "TestTimersFireWhileTheCommitterIsBusy",
		},
		{
			bug: "a record in the log does not say which runs it writes to", part: faults, also: contract,
			edits: []overlay.Edit{{File: store + "redo.go", Old: "\t\tr.written = append(r.written, id)\n", New: ""}},
			pkg:   store, run: "TestReadsSeeWhatIsInTheLogOnly",
		},
		{
			bug: "a key that was used again leads to the run that had it", part: faults,
			edits: []overlay.Edit{{File: store + "read.go", Old: "return !keyFree(run.Status) })", New: "return true })"}},
			pkg:   store, run: "TestReadsSeeWhatIsInTheLogOnly",
		},
		{
			bug: "what waits in the open transaction is lost where an op breaks", part: faults,
			edits: []overlay.Edit{{File: store + "flush.go", Old: "\ts.work.redo.forget()\n\tif tx == nil {", New: "\ts.work.redo.forget()\n\ts.work.redo.rewind()\n\tif tx == nil {"}},
			pkg:   store, run: "TestAnOpThatBreaksKeepsWhatIsInTheLog",
		},
		{
			bug: "a start does not write the row of its key", part: contract, also: behavior + ", " + crash + ", " + soak,
			edits: []overlay.Edit{{File: store + "start.go", Old: "\tst.put(bKeys, tenantKey(spec.Tenant, spec.Key), bytes.Clone(spec.ID[:]))\n", New: ""}},
			pkg:   store, run: "TestContract/start/a_repeated_start",
		},
		{
			bug: "an event's digest does not cover the one before", part: formats,
			edits: []overlay.Edit{{File: "history/digest.go", Old: "append(room[:0], d[:]...)", New: "room[:0]"}},
			pkg:   "history", run: "TestGoldenRecords",
		},
		// Facts.
		{
			bug: "a signal's identity is not remembered: a repeated one is delivered twice", part: contract, also: behavior + ", " + crash + ", " + soak,
			edits: []overlay.Edit{{File: store + "inbox.go", Old: "\t\tst.remember(w, key, e.digest)\n", New: ""}},
			pkg:   store, run: "TestContract/inbox/the_same_signal_id",
		},
		{
			bug: "signals that nobody has received are dropped when the run continues as new", part: behavior, also: crash,
			edits: []overlay.Edit{{File: store + "commit.go", Old: "\tw.state.Settle(b.Batch, due)\n", New: "\tw.state.Settle(b.Batch, due)\n" +
				"\tif n := len(b.events); n > 0 && b.events[n-1].Event.Kind == history.RunContinued {\n" +
				"\t\tfor k := range st.scan(bInbox, b.Run[:], nil) {\n\t\t\tst.delete(bInbox, append([]byte(nil), k...))\n\t\t}\n\t}\n"}},
			pkg: "engine", run: "TestContinueAsNewKeepsBufferedSignals",
		},
		{
			bug: "a second answer wins", part: contract, also: behavior + ", " + crash + ", " + soak,
			edits: []overlay.Edit{{File: store + "inbox.go", Old: "\tst.delete(bInterrupts, key)\n\tst.put(bAnswered, key, []byte{markAnswered})\n", New: "\tst.put(bAnswered, key, []byte{markAnswered})\n"}},
			pkg:   store, run: "TestContract/questions/of_concurrent_answers",
		},
		{
			bug: "a cancel is applied as often as it is asked for", part: contract, also: behavior,
			edits: []overlay.Edit{{File: store + "ending.go", Old: "if w.state.CancelRequested.IsZero() {", New: "if !w.state.Status.Terminal() {"}},
			pkg:   store, run: "TestContract/ending/a_cancel_request_for_a_run_that_was_claimed",
		},
		{
			bug: "an answer at the deadline still counts", part: contract,
			edits: []overlay.Edit{{File: store + "inbox.go", Old: "st.now >= q.Deadline {", New: "st.now > q.Deadline {"}},
			pkg:   store, run: "TestContract/questions/an_answer_before_the_deadline",
		},
		// Timers.
		{
			bug: "a sleep ends before its time", part: behavior, also: crash + ", " + soak,
			edits: []overlay.Edit{{File: core + "wait.go", Old: "\t\tdue = x.until(d)\n", New: "\t\tdue = x.until(d / 2)\n"}},
			pkg:   "engine", run: "TestSleepReturnsOnTimeAndThroughRestarts",
		},
		{
			bug: "a timer's row outlives its timer", part: contract, also: behavior,
			edits: []overlay.Edit{{File: store + "commit.go", Old: "\tfor _, t := range b.Clear {\n\t\tst.clearTimer(b.Run, t)\n\t}\n", New: ""}},
			pkg:   store, run: "TestContract/timers/a_cleared_timer",
		},
		// Execution.
		{
			bug: "a replay does not compare the names of operations", part: kernel, also: behavior,
			edits: []overlay.Edit{{File: core + "branch.go", Old: "if r.pos != pos || r.op != op {", New: "if r.op != op {"}},
			pkg:   core, run: "TestGoldenHistoriesRefuseRenamedOperations",
		},
		{
			bug: "an at-most-once step that was cut off is run again", part: behavior, also: crash,
			edits: []overlay.Edit{{File: core + "step.go", Old: "\t\tcase o.step.started:\n\t\t\tx.ambiguous(o)\n", New: ""}},
			pkg:   "engine", run: "TestAtMostOnceStepIsNotRepeatedAfterACrash",
		},
		{
			bug: "a step's idempotency key changes with the attempt", part: behavior,
			edits: []overlay.Edit{{File: core + "step.go", Old: "uint64(x.generation)", New: "uint64(x.ops[pos].step.attempt)"}},
			pkg:   "engine", run: "TestIdempotencyKeyIsStableOverAttemptsAndCrashes",
		},
		{
			bug: "a batch does not say which inbox items it has seen", part: simulate,
			edits: []overlay.Edit{{File: core + "activation.go", Old: "InboxSeen: a.InboxSeen, DecidedAt: a.DecidedAt", New: "DecidedAt: a.DecidedAt"}},
			pkg:   "engine/simtest", run: "TestSimulationRepeats",
		},
		{
			bug: "an idempotency key is the same in the next generation", part: simulate,
			edits: []overlay.Edit{{File: core + "step.go", Old: "uint64(x.generation)", New: "0"}},
			pkg:   "engine/simtest", run: "TestSimulationRepeats",
		},
		{
			bug: "what a replayed generation has not received is dropped", part: simulate,
			edits: []overlay.Edit{{File: core + "execution.go", Old: "if items[i].Kind == history.InboxSignal {", New: "if items[i].Kind == history.InboxSignal && (x.generation == 0 || items[i].Seq > 1) {"}},
			pkg:   "engine/simtest", run: "TestSimulationRepeats",
		},
		// Retention.
		{
			bug: "a clean-up deletes what is under a legal hold", part: contract, also: behavior + ", " + crash,
			edits: []overlay.Edit{{File: store + "expiry.go", Old: "\tcase held(holds, run.ID, run.Tenant, run.Workflow):\n\t\treturn engine.KeptHeld, nil\n", New: ""}},
			pkg:   store, run: "TestContract/retention/a_legal_hold",
		},
		{
			bug: "a pruning takes the event that begins the generation that goes on", part: contract,
			edits: []overlay.Edit{{File: store + "generations.go", Old: "last = binary.BigEndian.Uint64(k[runLen:]) - 1", New: "last = binary.BigEndian.Uint64(k[runLen:])"}},
			pkg:   store, run: "TestContract/pruning",
		},
		// PostgreSQL.
		{
			bug: "the statement of a commit does not look at the token", part: network,
			edits: []overlay.Edit{{
				File: database + "plaincommit.go",
				Old:  " and r.token_epoch = w.epoch and r.token = w.token and coalesce(r.lease_until, 0) <> 0",
				New:  "",
			}},
			pkg: database, run: "TestPromote$",
		},
		{
			bug: "a transaction whose outcome is unknown is tried again", part: network,
			edits: []overlay.Edit{{File: database + "write.go", Old: "!repeatable(err) {", New: "!repeatable(err) && !lost(err) {"}},
			pkg:   database, run: "TestEveryWriteThatLosesARequestOrAReplyHappensOnce/Commit_with_a_child,_reply",
		},
		{
			bug: "a commit whose outcome is unknown is tried again in a transaction", part: network,
			edits: []overlay.Edit{{File: database + "group.go", Old: "\t\tcase lost(err):\n\t\t\tg.err = err\n", New: ""}},
			pkg:   database, run: "TestEveryWriteThatLosesARequestOrAReplyHappensOnce/Commit_of_a_run_that_was_claimed_here,_reply",
		},
		{
			bug: "a claim waits for a row and takes it, whoever holds it by then", part: network,
			edits: []overlay.Edit{{
				File: database + "onetenant.go", Old: "and ` + isFree + ` and blocked_by < $4 for update skip locked",
				New: "and blocked_by < $4 for update",
			}},
			pkg: database, run: "TestClaimPassesOverALockedRun",
		},
		// The front end.
		{
			bug: "a task is shown to another tenant", part: frontEnd,
			edits: []overlay.Edit{{File: "mcptasks/call.go", Old: "run.Tenant == c.Tenant && run.Principal == c.Principal", New: "run.Principal == c.Principal"}},
			pkg:   "mcptasks", run: "TestOneAnswerForEveryTaskThatIsNotThere",
		},
	}
}
