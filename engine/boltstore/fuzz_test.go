package boltstore

import (
	"bytes"
	"errors"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
)

// FuzzKeys gives the readers of keys any bytes: what they take apart is put together to the same key again.
func FuzzKeys(f *testing.F) {
	id := history.RunID(ulid.MustParse("01JTESTRUNAAAAAAAAAAAAAAAA"))
	t := history.Timer{At: 1_893_553_445_000_000_000, Position: "nap#0"}
	spec := history.Spec{ID: id, Workflow: "order", Version: 2, Queue: "slow", Tenant: "acme", ConcurrencyKey: "host-1", ConcurrencyLimit: 3, Priority: -1}
	f.Add(timerKey(id, t))
	f.Add(runTimerKey(id, t))
	f.Add(definitionKey("order", 2))
	f.Add(append(timeBytes(closedPrefix("acme", "order"), t.At), id[:]...))
	f.Add(workflowFacet("acme", "order"))
	f.Add(linePrefix(&spec))
	f.Add(readyKey(&spec, t.At))
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, k []byte) {
		same := func(what string, again []byte) {
			if !bytes.Equal(again, k) {
				t.Errorf("%s: %x became %x", what, k, again)
			}
		}
		if id, timer, ok := splitTimerKey(k); ok {
			same("timer", timerKey(id, timer))
		}
		if id, timer, ok := splitRunTimerKey(k); ok {
			same("timer of a run", runTimerKey(id, timer))
		}
		if name, version, ok := splitDefinitionKey(k); ok {
			same("definition", definitionKey(name, version))
		}
		if tenant, workflow, at, ok := splitClosedKey(k); ok {
			same("closed", append(timeBytes(closedPrefix(tenant, workflow), at), k[len(k)-runLen:]...))
		}
		if len(k) > 0 && k[0] == byWorkflow {
			if tenant, workflow, ok := splitWorkflowFacet(k); ok {
				same("facet", workflowFacet(tenant, workflow))
			}
		}
		if n, ok := splitLine(string(k)); ok {
			if n.workflow < 5 || n.workflow > len(k) {
				t.Fatalf("line %x has a workflow of %d bytes", k, n.workflow)
			}
			spec := history.Spec{
				Workflow: string(k[1 : n.workflow-4]), Queue: n.queue, Tenant: n.tenant, ConcurrencyKey: n.key, ConcurrencyLimit: n.limit,
			}
			again := linePrefix(&spec)
			copy(again[n.workflow-4:n.workflow], k[n.workflow-4:])
			same("line", again)
		}
	})
}

// FuzzCursor: a cursor that is taken is one that a page came with, and others are refused as invalid.
func FuzzCursor(f *testing.F) {
	f.Add(cursor(history.RunID(ulid.MustParse("01JTESTRUNAAAAAAAAAAAAAAAA"))))
	f.Add("AZNFW12345")
	f.Add("====")
	f.Add("\x00")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := parseCursor(text)
		switch {
		case err != nil && !errors.Is(err, history.ErrInvalid):
			t.Fatalf("%q: %v does not match ErrInvalid", text, err)
		case err != nil || text == "":
			return
		case cursor(history.RunID(b)) != text:
			t.Fatalf("%q became %q", text, cursor(history.RunID(b)))
		}
	})
}

// FuzzRecord gives the reader of the log's records any bytes: what it takes apart is put together to the same record again.
func FuzzRecord(f *testing.F) {
	rec := beginRecord(nil)
	rec = appendWrite(rec, &write{bucket: bStates, key: []byte("run"), value: []byte("state")})
	rec = appendWrite(rec, &write{bucket: bReady, key: []byte("row"), del: true})
	rec = appendWrite(rec, &write{bucket: bTimers, key: []byte("timer"), value: []byte{}})
	sealRecord(rec, 7, 9)
	f.Add(rec, rec[recordHeader:])
	f.Add([]byte(recordMagic), []byte{byte(bStates), writePut, 1, 'k', 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b, writes []byte) {
		if r, ok := parseRecord(b); ok {
			again := append(beginRecord(nil), r.writes...)
			sealRecord(again, r.id, r.seq)
			if !bytes.Equal(again, b[:r.size()]) {
				t.Errorf("%x became %x", b[:r.size()], again)
			}
		}
		r := record{seq: 1, writes: writes}
		var again []byte
		err := r.each(func(w *write) error {
			again = appendWrite(again, w)
			return nil
		})
		switch {
		case err != nil && !errors.Is(err, history.ErrCorrupt):
			t.Errorf("%x: %v, want ErrCorrupt", writes, err)
		case len(again) > len(writes):
			t.Errorf("%x became %x", writes, again)
		}
	})
}
