package storetest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func readScenarios() []scenario {
	return []scenario{
		{"a list is paged, newest first, and each run is on one page", listPaged},
		{"a list is filtered", listFiltered},
		{"a list by any two filters is what both have in common", listCombined},
		{"a list is bounded by the time of the start", listByTime},
		{"deleted runs leave every list", listWithoutDeleted},
		{"a cursor that no page came with is refused", listCursor},
		{"what is read belongs to the reader", readsAreCopies},
		{"the outcome of a run is its terminal event", outcomes},
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
	_, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
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

// listCombined compares every combination of filters with a look at all runs, in pages of every size.
func listCombined(e *env) {
	tenants, workflows, principals := []string{"", "acme", "a", "\xff\xff"}, []string{workflow, "orders", "o"}, []string{"", "alice", "bob"}
	for i := range 60 {
		spec := history.Spec{
			Key: fmt.Sprint("r", i), Workflow: workflows[i%3], Version: 1, Tenant: tenants[i/3%4], Principal: principals[i/5%3],
			Tags: map[string]string{"env": []string{"prod", "test"}[i/7%2]},
		}
		if i%4 == 0 {
			spec.TaskID = fmt.Sprint("task", i)
		}
		run, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
		e.ok(err)
		if i%3 == 1 {
			_, err := e.Cancel(e.ctx, run.ID, "", "")
			e.ok(err)
		}
		e.clock.Advance(time.Millisecond / 2)
	}
	all := e.listed(engine.Filter{})
	equal(e, "runs", len(all), 60)
	statuses := [][]history.Status{nil, {history.StatusCanceled}, {history.StatusReady, history.StatusRunning}, {history.StatusFailed}}
	for _, tenant := range append(tenants, "none") {
		for _, name := range append(workflows, "", "none") {
			for _, principal := range principals {
				for i, status := range statuses {
					f := engine.Filter{Workflow: name, Statuses: status, Limit: 1 + i*3}
					if tenant != "none" {
						f.Tenant = &tenant
					}
					if principal != "" {
						f.Principal = &principal
					}
					if name == "o" {
						f.Tags = map[string]string{"env": "prod"}
					}
					e.listsOf(all, f)
				}
			}
		}
	}
}

// listsOf compares a list with those of all that the filter selects.
func (e *env) listsOf(all []history.Run, f engine.Filter) {
	e.Helper()
	var want []history.RunID
	for _, r := range all {
		at := history.Time(r.ID.Time()) * history.Time(time.Millisecond)
		if (f.Tenant == nil || r.Tenant == *f.Tenant) && (f.Workflow == "" || r.Workflow == f.Workflow) && (f.Principal == nil || r.Principal == *f.Principal) &&
			(f.Tags == nil || r.Tags["env"] == f.Tags["env"]) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) &&
			at.Add(time.Millisecond) > f.CreatedFrom && (f.CreatedBefore == 0 || at < f.CreatedBefore) {
			want = append(want, r.ID)
		}
	}
	var got []history.RunID
	for _, r := range e.listed(f) {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) {
		e.Fatalf("list of %+v (tenant %v, principal %v) is %v, want %v", f, f.Tenant, f.Principal, got, want)
	}
}

// listed reads all pages of a list.
func (e *env) listed(f engine.Filter) (runs []history.Run) {
	e.Helper()
	for {
		page, err := e.List(e.ctx, f)
		e.ok(err)
		if f.Limit > 0 && len(page.Runs) > f.Limit {
			e.Fatalf("a page has %d runs, its limit is %d", len(page.Runs), f.Limit)
		}
		runs = append(runs, page.Runs...)
		if f.After = page.Next; f.After == "" {
			return runs
		}
	}
}

func listByTime(e *env) {
	begin := e.Now()
	for i := range 20 {
		e.begin(fmt.Sprint("r", i))
		e.clock.Advance(time.Millisecond * 3 / 4)
	}
	all := e.listed(engine.Filter{})
	for _, d := range []time.Duration{-time.Hour, 0, 1, time.Millisecond, 4*time.Millisecond + 1, 7 * time.Millisecond, time.Hour} {
		at := begin.Add(d)
		e.listsOf(all, engine.Filter{CreatedFrom: at, Limit: 3})
		e.listsOf(all, engine.Filter{CreatedBefore: at, Limit: 3})
		e.listsOf(all, engine.Filter{CreatedFrom: at, CreatedBefore: at.Add(3 * time.Millisecond), Limit: 3})
		e.listsOf(all, engine.Filter{CreatedFrom: at, Workflow: workflow, Statuses: []history.Status{history.StatusReady}})
	}
	e.listsOf(all, engine.Filter{CreatedBefore: 1})
	e.listsOf(all, engine.Filter{CreatedFrom: math.MaxInt64})
}

func listWithoutDeleted(e *env) {
	spec := specWith("gone")
	spec.Tenant, spec.Principal, spec.Retention, spec.Tags = "acme", "alice", time.Second, map[string]string{"env": "prod"}
	run, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
	e.ok(err)
	_, err = e.Cancel(e.ctx, run.ID, "", "")
	e.ok(err)
	e.clock.Advance(time.Second)
	token, err := e.LeaseCleanup(e.ctx, "cleaner", ttl)
	e.ok(err)
	d, err := e.Delete(e.ctx, token, nil, []history.RunID{run.ID})
	e.ok(err)
	equal(e, "deleted", len(d.Deleted), 1)
	for _, f := range []engine.Filter{
		{},
		{Tenant: &spec.Tenant},
		{Workflow: workflow},
		{Tenant: &spec.Tenant, Principal: &spec.Principal},
		{Tags: spec.Tags},
		{Statuses: []history.Status{history.StatusCanceled}},
	} {
		equal(e, "runs", len(e.listed(f)), 0)
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
	run, _, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: payload})
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
	h.claim.Run.Tags["a"] = "4"
	equal(e, "tag after a claim", e.Run(run.ID).Tags["a"], "1")
	ev := []history.Event{{Seq: 2, Kind: history.StepCompleted, Position: "a#0"}}
	b := h.batch(history.NextRunning)
	b.Events = ev
	h.commit(b)
	if !ev[0].Token.IsZero() || !ev[0].At.IsZero() {
		e.Fatalf("the caller's event was changed to %+v", ev[0])
	}
}

func outcomes(e *env) {
	_, _, err := e.Outcome(e.ctx, history.NewRunID(e.Now()))
	e.is(err, history.ErrNotFound)
	long := []byte(`"` + strings.Repeat("x", 1<<16) + `"`)
	ends := map[history.RunID]history.Event{}
	for _, end := range []history.Event{
		{Kind: history.RunCompleted, Payload: []byte(`"done"`)},
		{Kind: history.RunCompleted, Payload: long},
		{Kind: history.RunFailed, Failure: &history.Failure{Kind: history.FailureApplication, Message: "no"}},
	} {
		h := e.takeNew(fmt.Sprint("r", len(ends)))
		if _, over, err := e.Outcome(e.ctx, h.id); over || err != nil {
			e.Fatalf("the outcome of a run that is not over: %t, %v", over, err)
		}
		h.commit(h.batch(history.NextClosed, end))
		es := e.events(h.id)
		ends[h.id] = es[len(es)-1]
	}
	for pass := range 3 {
		for id, want := range ends {
			got, over, err := e.Outcome(e.ctx, id)
			e.ok(err)
			if !over || !reflect.DeepEqual(got, want) {
				e.Fatalf("pass %d: the outcome is %t, %+v, want %+v", pass, over, got, want)
			}
			if len(got.Payload) > 0 {
				got.Payload[0] = 'z' // must not be seen by the next pass
			}
		}
		if pass == 1 {
			e.reopen(0)
		}
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
