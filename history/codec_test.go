package history_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
)

var update = flag.Bool("update", false, "write the golden files of the current format version")

var (
	runA = ulid.MustParse("01JTESTRUNAAAAAAAAAAAAAAAA")
	runB = ulid.MustParse("01JTESTRUNBBBBBBBBBBBBBBBB")
	at   = history.Time(1_893_553_445_000_000_000)
)

func failure() *history.Failure {
	return &history.Failure{
		Kind: history.FailureApplication, Message: "no stock\xff", Step: "book#0", Attempts: 3, Final: true, Code: -32000, Data: []byte(`{"a":1}`),
		Cause: &history.Failure{Kind: history.FailureTimeout, Message: "5s"},
	}
}

// goldenEvents is a history with every kind of event and every field.
func goldenEvents() []history.Event {
	events := []history.Event{
		{Kind: history.RunStarted, Name: "order", Version: 2, By: "alice", Due: at.Add(time.Hour), Payload: []byte(`{"n":1}`)},
		{Kind: history.StepRetried, Position: "ship#0[item-7]/book#0", Op: "step", Attempt: 1, Due: at.Add(time.Second), Failure: failure()},
		{Kind: history.StepCompleted, Position: "ship#0[item-7]/book#0", Op: "step", Attempt: 2, Payload: bytes.Repeat([]byte("x"), 300)},
		{Kind: history.ReceiveOpened, Position: "receive#0", Op: "receive", Names: []string{"paid", "canceled"}},
		{Kind: history.SignalReceived, Position: "receive#0", Op: "receive", Name: "paid", Key: "p1", Inbox: 3, Payload: []byte(`1`)},
		{Kind: history.StatusReported, Message: "half way", Generation: 0},
	}
	for k := history.Kind(0); k < 255; k++ {
		if k.Known() && !slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == k }) {
			e := history.Event{Kind: k}
			if !k.OfRun() {
				e.Position = "x#0"
			}
			events = append(events, e)
		}
	}
	for i := range events {
		events[i].Seq, events[i].At = uint64(i+1), at.Add(time.Duration(i))
		events[i].Token = history.Token{Epoch: 1_893_553_445_000, Counter: uint64(i)}
	}
	return events
}

func goldenSpec() history.Spec {
	return history.Spec{
		ID: runA, Tenant: "acme", Key: "order-1", Workflow: "order", Version: 2, Principal: "alice", TaskID: "task", Route: "ship",
		Accepts: []string{"elicitation/create"}, Queue: "mail", Priority: -3, Tags: map[string]string{"b": "2", "a": "1"},
		InputDigest: history.Sum([]byte("in")), CreatedAt: at, Deadline: at.Add(time.Hour), Retention: time.Minute, Parent: runB,
		ParentPosition: "child#0", Origin: runB, OriginSeq: 7, KeysOf: runA, ConcurrencyKey: "customer-1", ConcurrencyLimit: 2, Depth: 2,
	}
}

func goldenState() history.State {
	return history.State{
		Status: history.StatusBlocked, Reason: "differs", Message: "half way", Generation: 2, Seq: 9, Head: history.Sum([]byte("h")), Bytes: 1234,
		GenerationSeq: 5, InboxHead: 7, InboxSeen: 6, Questions: 1, CancelRequested: at, UpdatedAt: at, ClosedAt: at, Epoch: 3, Claimed: true, Undecided: []history.Position{"pay#0"},
		Failure: failure(),
	}
}

func goldenItem() history.InboxItem {
	return history.InboxItem{
		Seq: 4, Kind: history.InboxAnswer, Name: "accept", Key: "q", AcceptedAt: at, Payload: []byte(`true`), Failure: failure(), By: "bob", Message: "fine", MovedTo: runB,
	}
}

// goldenMovedItem has the fields that goldenItem, which is older, lacks.
func goldenMovedItem() history.InboxItem {
	i := goldenItem()
	i.EncodedFor, i.Content, i.Erased = runA, history.Sum([]byte("content")), true
	return i
}

func goldenQuestion() history.Interrupt {
	return history.Interrupt{
		Key: "approve#0", Position: "approve#0", Method: history.MethodQuestion, Body: []byte(`{"message":"ok?"}`), OpenedAt: at,
		Deadline: at.Add(time.Hour), OperatorOnly: true,
	}
}

func goldenTombstone() history.Tombstone {
	return history.Tombstone{
		Run: runA, Tenant: "acme", Key: "order-1", TaskID: "task", Workflow: "order", Version: 2, Status: history.StatusFailed, CreatedAt: at,
		ClosedAt: at.Add(1), DeletedAt: at.Add(2), Events: 9, Head: history.Sum([]byte("h")), InputDigest: history.Sum([]byte("in")),
	}
}

func goldenHold() history.Hold {
	tenant := "acme"
	return history.Hold{
		ID: runA, Scope: history.HoldWorkflow, Run: runB, Workflow: "order", Tenant: &tenant, By: "counsel", Reason: "case 7", PlacedAt: at,
		ReleasedBy: "bob", ReleaseReason: "case closed", ReleasedAt: at.Add(1),
	}
}

func goldenReceipt() history.Receipt {
	return history.Receipt{
		Run: runA, At: at, Destination: "/srv/runs.jsonl", Digest: history.Sum([]byte("line")), Bytes: 4, Events: 9, Head: history.Sum([]byte("h")),
	}
}

func goldenEntry() history.Entry {
	return history.Entry{
		Seq: 3, At: at, Verb: "purge tombstones", By: "op", Reason: "yearly", Subject: "hold", From: runA, To: runB, Count: 12,
	}
}

func goldenBase() history.Base {
	return history.Base{
		State: goldenState(), Token: history.Token{Epoch: 3, Counter: 4}, Consumed: []uint64{1, 7, 9, 9}, Questions: []string{"q"},
		Canceled: true, Deadline: true, At: 1_700_000_000_000_000_000,
	}
}

// goldenRecords encodes all of them under their names.
func goldenRecords(t *testing.T) (names []string, records map[string][]byte) {
	t.Helper()
	c := history.NewCodec()
	records = map[string][]byte{}
	add := func(name string, rec []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		names, records[name] = append(names, name), rec
	}
	var head history.Digest
	for _, e := range goldenEvents() {
		rec, next, err := c.EncodeEvent(head, &e)
		add(fmt.Sprintf("event %d", e.Seq), rec, err)
		head = next
	}
	spec, state, item, q := goldenSpec(), goldenState(), goldenItem(), goldenQuestion()
	rec, err := history.Encode(c, &spec)
	add("spec", rec, err)
	rec, err = history.Encode(c, &state)
	add("state", rec, err)
	rec, err = history.Encode(c, &item)
	add("inbox item", rec, err)
	moved := goldenMovedItem()
	rec, err = history.Encode(c, &moved)
	add("moved inbox item", rec, err)
	rec, err = history.Encode(c, &q)
	add("interrupt", rec, err)
	stone, hold, receipt, entry := goldenTombstone(), goldenHold(), goldenReceipt(), goldenEntry()
	rec, err = history.Encode(c, &stone)
	add("tombstone", rec, err)
	rec, err = history.Encode(c, &hold)
	add("hold", rec, err)
	rec, err = history.Encode(c, &receipt)
	add("receipt", rec, err)
	rec, err = history.Encode(c, &entry)
	add("journal entry", rec, err)
	base := goldenBase()
	rec, err = history.Encode(c, &base)
	add("base", rec, err)
	return names, records
}

// A golden file has a line for each record: name, a tab, hex.
func readGolden(t testing.TB, path string) (names []string, records map[string][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records = map[string][]byte{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		name, text, _ := strings.Cut(s.Text(), "\t")
		rec, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		names, records[name] = append(names, name), rec
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return names, records
}

const golden = "testdata/format1.golden"

// TestGoldenRecords holds the bytes of the format still: records that were written by any release are read as they were
// meant, and this version writes the same bytes.
func TestGoldenRecords(t *testing.T) {
	names, records := goldenRecords(t)
	if *update {
		var b bytes.Buffer
		for _, name := range names {
			fmt.Fprintf(&b, "%s\t%x\n", name, records[name])
		}
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, want := readGolden(t, golden)
	if len(kept) != len(names) {
		t.Errorf("the golden file has %d records, want %d: a new kind needs -update", len(kept), len(names))
	}
	for _, name := range names {
		if !bytes.Equal(records[name], want[name]) {
			t.Errorf("%s is written as %x, the format has %x", name, records[name], want[name])
		}
	}
	c := history.NewCodec()
	for i, e := range goldenEvents() {
		got, _, err := c.DecodeEvent(want[fmt.Sprintf("event %d", i+1)])
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("event %d is read as %+v (%v), want %+v", i+1, got, err, e)
		}
	}
	same(t, "spec", want["spec"], goldenSpec())
	same(t, "state", want["state"], goldenState())
	same(t, "inbox item", want["inbox item"], goldenItem())
	same(t, "moved inbox item", want["moved inbox item"], goldenMovedItem())
	same(t, "interrupt", want["interrupt"], goldenQuestion())
	same(t, "base", want["base"], goldenBase())
}

func same[R history.Record](t *testing.T, name string, rec []byte, want R) {
	t.Helper()
	got, err := history.Decode[R](history.NewCodec(), rec)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v (%v), want %+v", name, got, err, want)
	}
}

// TestGoldenSetsEveryField keeps the golden records complete: a new field must be in them.
func TestGoldenSetsEveryField(t *testing.T) {
	zero := func(v any) {
		rv := reflect.ValueOf(v)
		for i := range rv.NumField() {
			if f := rv.Type().Field(i); rv.Field(i).IsZero() && f.Tag.Get("cbor") != "-" {
				t.Errorf("%s.%s is not set", rv.Type(), f.Name)
			}
		}
	}
	zero(goldenSpec())
	zero(goldenState())
	zero(goldenMovedItem())
	zero(goldenQuestion())
	zero(*failure())
}

func TestADamagedRecordIsNotDecoded(t *testing.T) {
	c := history.NewCodec()
	_, records := readGolden(t, golden)
	rec := records["event 3"]
	for cut := range rec {
		if _, _, err := c.DecodeEvent(rec[:cut]); cut < len(rec)-300 && !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("cut to %d of %d bytes: %v", cut, len(rec), err)
		}
	}
	for name, b := range map[string][]byte{
		"a bit of the payload": flipped(rec, len(rec)-1), "version 0": append([]byte{0}, rec[1:]...), "longer": append(slices.Clone(rec), 'x'),
	} {
		if _, _, err := c.DecodeEvent(b); !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := c.DecodeEvent(append([]byte{2}, rec[1:]...)); !errors.Is(err, history.ErrFormat) {
		t.Errorf("a later version: %v", err)
	}
	unknown := history.Event{Seq: 1, Kind: 250}
	rec, _, err := c.EncodeEvent(history.Digest{}, &unknown)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.DecodeEvent(rec); !errors.Is(err, history.ErrFormat) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

func TestAnErasedPayloadStillVerifies(t *testing.T) {
	c := history.NewCodec()
	_, records := readGolden(t, golden)
	recs := [][]byte{records["event 1"], records["event 2"], records["event 3"][:len(records["event 3"])-300]}
	ch, err := history.Verify(c, slices.Values(recs))
	if err != nil || ch.Seq != 3 {
		t.Fatalf("verified up to %d: %v", ch.Seq, err)
	}
	e, _, err := c.DecodeEvent(recs[2])
	if err != nil || !e.PayloadErased || e.Payload != nil {
		t.Errorf("erased: %t, payload %q, error %v", e.PayloadErased, e.Payload, err)
	}
}

func TestVerifyFindsEveryFlippedBit(t *testing.T) {
	c := history.NewCodec()
	names, records := readGolden(t, golden)
	var recs [][]byte
	for _, name := range names {
		if strings.HasPrefix(name, "event") {
			recs = append(recs, records[name])
		}
	}
	ch, err := history.Verify(c, slices.Values(recs))
	if err != nil || int(ch.Seq) != len(recs) {
		t.Fatalf("verified up to %d of %d: %v", ch.Seq, len(recs), err)
	}
	for i := range 5 {
		for at := range recs[i] {
			damaged := slices.Clone(recs)
			damaged[i] = flipped(recs[i], at)
			if _, err := history.Verify(c, slices.Values(damaged)); err == nil {
				t.Errorf("byte %d of event %d was changed, and nobody noticed", at, i+1)
			}
		}
	}
	for name, order := range map[string][]int{"swapped": {0, 2, 1}, "left out": {0, 2}, "doubled": {0, 0}, "without a beginning": {1, 2}} {
		var some [][]byte
		for _, i := range order {
			some = append(some, recs[i])
		}
		if _, err := history.Verify(c, slices.Values(some)); !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeepFailuresAreReadBack(t *testing.T) {
	f := &history.Failure{Kind: history.FailureApplication}
	for range 20 {
		f = &history.Failure{Kind: history.FailureApplication, Cause: f}
	}
	c := history.NewCodec()
	e := history.Event{Seq: 1, Kind: history.RunFailed, Failure: f}
	rec, _, err := c.EncodeEvent(history.Digest{}, &e)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := c.DecodeEvent(rec)
	if err != nil || !reflect.DeepEqual(got.Failure, f) {
		t.Errorf("%v", err)
	}
}

// FuzzDecode gives the decoders any bytes: they must answer with a record or a typed error, and a record that they accept
// must be written and read again as it is.
func FuzzDecode(f *testing.F) {
	_, records := readGolden(f, golden)
	for _, rec := range records {
		f.Add(rec)
	}
	c := history.NewCodec()
	f.Fuzz(func(t *testing.T, rec []byte) {
		var ch history.Chain
		_, _ = ch.Verify(c, rec)
		if e, _, err := c.DecodeEvent(rec); err == nil && !e.PayloadErased {
			again, _, err := c.EncodeEvent(history.Digest{}, &e)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := c.DecodeEvent(again); err != nil || !reflect.DeepEqual(got, e) {
				t.Fatalf("%+v became %+v (%v)", e, got, err)
			}
		} else if err != nil {
			typed(t, err)
		}
		roundTrip[history.Spec](t, c, rec)
		roundTrip[history.State](t, c, rec)
		roundTrip[history.InboxItem](t, c, rec)
		roundTrip[history.Interrupt](t, c, rec)
		roundTrip[history.Tombstone](t, c, rec)
		roundTrip[history.Hold](t, c, rec)
		roundTrip[history.Receipt](t, c, rec)
		roundTrip[history.Entry](t, c, rec)
	})
}

// What a batch may record is read back: the decoder's bounds are wider than those of the check.
func TestDeepestFailureIsReadBack(t *testing.T) {
	c := history.NewCodec()
	f := failure()
	for f.Depth() < history.MaxCauses {
		f = &history.Failure{Kind: history.FailureApplication, Message: "above", Cause: f}
	}
	end := history.Event{Seq: 2, Kind: history.RunFailed, At: at, Failure: f}
	b := history.Batch{Run: runA, After: 1, Events: []history.Event{end}, Next: history.NextClosed}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	rec, _, err := c.EncodeEvent(history.Digest{}, &end)
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := c.DecodeEvent(rec); err != nil || e.Failure.Depth() != history.MaxCauses {
		t.Errorf("event: %v", err)
	}
	deepest[history.State](t, c, &history.State{Failure: f})
	deepest[history.InboxItem](t, c, &history.InboxItem{Kind: history.InboxChild, Failure: f})
	deepest[history.Base](t, c, &history.Base{State: history.State{Failure: f}})
	b.Events[0].Failure = &history.Failure{Kind: history.FailureApplication, Cause: f}
	if err := b.Check(); !errors.Is(err, history.ErrInvalid) {
		t.Errorf("a failure that could not be read back: %v", err)
	}
}

func deepest[R history.Record](t *testing.T, c *history.Codec, r *R) {
	t.Helper()
	rec, err := history.Encode(c, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := history.Decode[R](c, rec); err != nil {
		t.Errorf("%T: %v", *r, err)
	}
}

func typed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, history.ErrCorrupt) && !errors.Is(err, history.ErrFormat) {
		t.Fatalf("error %v matches neither ErrCorrupt nor ErrFormat", err)
	}
}

func roundTrip[R history.Record](t *testing.T, c *history.Codec, rec []byte) {
	t.Helper()
	r, err := history.Decode[R](c, rec)
	if err != nil {
		typed(t, err)
		return
	}
	again, err := history.Encode(c, &r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := history.Decode[R](c, again)
	if err != nil {
		t.Fatal(err)
	}
	if third, err := history.Encode(c, &got); err != nil || !bytes.Equal(third, again) {
		t.Fatalf("%x became %x (%v)", again, third, err)
	}
}
