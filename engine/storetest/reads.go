package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func readScenarios() []scenario {
	return []scenario{
		{"a list is paged, newest first, and each run is on one page", listPaged},
		{"a list is filtered", listFiltered},
		{"a cursor that no page came with is refused", listCursor},
		{"what is read belongs to the reader", readsAreCopies},
		{"definitions keep their versions", definitions},
		{"a secret is made once", secrets},
		{"changes come in order and stop when asked", changesInOrder},
	}
}

func listPaged(e *env) {
	var want []history.RunID
	for i := range 25 {
		run := e.begin(fmt.Sprint("r", i))
		want = append(want, run.ID)
		e.clock.Advance(time.Millisecond)
	}
	slices.Reverse(want)
	for _, c := range e.claims("w", 10) { // they are of several statuses now
		e.holder(c).complete()
	}
	var got []history.RunID
	f := engine.Filter{Limit: 10}
	for pages := 1; ; pages++ {
		page, err := e.List(e.ctx, f)
		e.ok(err)
		for _, r := range page.Runs {
			got = append(got, r.ID)
		}
		if f.After = page.Next; f.After == "" {
			equal(e, "pages", pages, 3)
			break
		}
		equal(e, "runs of a full page", len(page.Runs), 10)
		e.begin(fmt.Sprint("late", pages)) // does not disturb the pages that follow
	}
	equal(e, "runs", fmt.Sprint(got), fmt.Sprint(want))
	page, err := e.List(e.ctx, engine.Filter{Limit: 27})
	e.ok(err)
	equal(e, "runs of a page that just fits", len(page.Runs), 27)
	equal(e, "next", page.Next, "")
}

func listFiltered(e *env) {
	h := e.takeNew("asks")
	h.commit(h.askBatch("q", 0))
	h = e.takeNew("sleeps")
	h.sleep("s#0", e.Now().Add(time.Hour))
	e.takeNew("done").complete()
	h = e.takeNew("blocked")
	h.commit(b2(h, "differs"))
	e.takeNew("runs")
	spec := specWith("tagged")
	spec.Tags, spec.Tenant, spec.TaskID, spec.Principal = map[string]string{"env": "prod", "team": "a"}, "acme", "task", "alice"
	_, _, err := e.Start(e.ctx, history.Start{Spec: spec})
	e.ok(err)
	acme, none, alice := "acme", "", "alice"
	for _, c := range []struct {
		f    engine.Filter
		want string
	}{
		{engine.Filter{Statuses: []history.Status{history.StatusWaiting}}, "[asks sleeps]"},
		{engine.Filter{Statuses: []history.Status{history.StatusRunning}}, "[runs]"},
		{engine.Filter{Statuses: []history.Status{history.StatusReady}}, "[tagged]"},
		{engine.Filter{Statuses: []history.Status{history.StatusBlocked, history.StatusCompleted}}, "[blocked done]"},
		{engine.Filter{Statuses: []history.Status{history.StatusCanceled}}, "[]"},
		{engine.Filter{Questions: true}, "[asks]"},
		{engine.Filter{HasTask: true}, "[tagged]"},
		{engine.Filter{Tenant: &acme}, "[tagged]"},
		{engine.Filter{Principal: &alice}, "[tagged]"},
		{engine.Filter{Tenant: &none, Statuses: []history.Status{history.StatusRunning}}, "[runs]"},
		{engine.Filter{Tags: map[string]string{"env": "prod"}}, "[tagged]"},
		{engine.Filter{Tags: map[string]string{"env": "test"}}, "[]"},
		{engine.Filter{Tags: map[string]string{"no": ""}}, "[]"},
		{engine.Filter{Workflow: "refund"}, "[]"},
		{engine.Filter{Workflow: workflow, Statuses: history.Statuses()}, "[asks blocked done runs sleeps tagged]"},
	} {
		page, err := e.List(e.ctx, c.f)
		e.ok(err)
		var keys []string
		for _, r := range page.Runs {
			keys = append(keys, r.Key)
		}
		slices.Sort(keys)
		equal(e, fmt.Sprintf("list of %+v", c.f), fmt.Sprint(keys), c.want)
	}
}

func listCursor(e *env) {
	for _, after := range []string{"x", "!!!", "AAAA", string(make([]byte, 3000))} {
		_, err := e.List(e.ctx, engine.Filter{After: after})
		e.is(err, history.ErrInvalid)
	}
}

func readsAreCopies(e *env) {
	tags := map[string]string{"a": "1"}
	payload := []byte(`"x"`)
	spec := specWith("a")
	spec.Tags = tags
	run, _, err := e.Start(e.ctx, history.Start{Spec: spec, Input: payload})
	e.ok(err)
	e.deliver(run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "s", Payload: payload}, engine.Delivered)
	payload[1], tags["a"] = 'y', "2"
	for range 2 { // what the first pass changes must not be seen by the second
		got := e.Run(run.ID)
		equal(e, "tag", got.Tags["a"], "1")
		got.Tags["a"] = "3"
		es := e.events(run.ID)
		equal(e, "input", string(es[0].Payload), `"x"`)
		es[0].Payload[1] = 'z'
		items, _, err := e.Inbox(e.ctx, run.ID, 0)
		e.ok(err)
		equal(e, "payload", string(items[0].Payload), `"x"`)
		items[0].Payload[1] = 'z'
	}
	h := e.take()
	ev := []history.Event{{Seq: 2, Kind: history.StepCompleted, Position: "a#0"}}
	b := h.batch(history.NextRunning)
	b.Events = ev
	h.commit(b)
	if !ev[0].Token.IsZero() || !ev[0].At.IsZero() {
		e.Fatalf("the caller's event was changed to %+v", ev[0])
	}
}

func definitions(e *env) {
	put := func(name, data string, want int) {
		e.Helper()
		v, err := e.PutDefinition(e.ctx, name, []byte(data))
		e.ok(err)
		equal(e, "version of "+name+" "+data, v, want)
	}
	put("ship", "v1", 1)
	put("ship", "v2", 2)
	put("ship", "v1", 1)
	put("shipping", "v1", 1)
	put("a-long-name", "v1", 1)
	e.reopen(0)
	put("ship", "v2", 2)
	put("ship", "v3", 3)
	var got []string
	e.ok(e.Definitions(e.ctx, func(name string, version int, data []byte) error {
		got = append(got, fmt.Sprint(name, version, string(data)))
		return nil
	}))
	equal(e, "definitions", fmt.Sprint(got), "[a-long-name1v1 ship1v1 ship2v2 ship3v3 shipping1v1]")
	stop := fmt.Errorf("stop")
	e.is(e.Definitions(e.ctx, func(string, int, []byte) error { return stop }), stop)
	_, err := e.PutDefinition(e.ctx, "a/b", []byte("x"))
	e.is(err, history.ErrInvalid)
	_, err = e.PutDefinition(e.ctx, "empty", nil)
	e.is(err, history.ErrInvalid)
}

func secrets(e *env) {
	a, err := e.Secret(e.ctx, "a")
	e.ok(err)
	b, err := e.Secret(e.ctx, "b")
	e.ok(err)
	equal(e, "bytes", len(a), 32)
	if string(a) == string(b) {
		e.Fatal("two secrets are the same")
	}
	keep := string(a)
	a[0]++
	e.reopen(0)
	a, err = e.Secret(e.ctx, "a")
	e.ok(err)
	equal(e, "secret", string(a), keep)
	_, err = e.Secret(e.ctx, "")
	e.is(err, history.ErrInvalid)
}

func changesInOrder(e *env) {
	changes := make(chan engine.Change, 100)
	cancel := e.Subscribe(func(c engine.Change) { changes <- c })
	run := e.begin("a")
	c := <-changes
	equal(e, "run", c.Run, run.ID)
	equal(e, "ready", c.Ready, true)
	e.deliver(run.ID, signal("s", "", `1`), engine.Delivered)
	c = <-changes
	equal(e, "inbox", c.Inbox, true)
	equal(e, "ready", c.Ready, true)
	h := e.take()
	at := e.Now().Add(time.Second)
	h.sleep("s#0", at)
	c = <-changes
	equal(e, "status", c.Status, history.StatusWaiting)
	equal(e, "timer", c.Timer, at)
	equal(e, "ready", c.Ready, false)
	e.pass(time.Second)
	c = <-changes
	equal(e, "due", c.Due, true)
	equal(e, "ready", c.Ready, true)
	e.take()
	e.clock.Advance(ttl)
	_, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	c = <-changes
	equal(e, "ready after expiry", c.Ready, true)
	e.take().complete()
	c = <-changes
	equal(e, "status", c.Status, history.StatusCompleted)
	cancel()
	e.begin("b")
	if len(changes) > 0 {
		e.Fatalf("a change came after the end of the subscription: %+v", <-changes)
	}
}
