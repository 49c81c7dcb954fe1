//go:build unix

package crashtest

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/history"
)

// takeover is how long after the end of a lease another worker must have the run at the latest.
const takeover = time.Second

// lease is what the row of a run says of it.
type lease struct {
	owner string
	token history.Token
	until history.Time
}

// overtakes stops a worker in the middle of a step, until another has taken its run over and completed it. What the stopped
// one then wants to record of the step is refused.
func (c *cluster) overtakes() {
	c.t.Helper()
	c.workers = []*process{c.start(life{Role: worked}), c.start(life{Role: worked})}
	for _, p := range c.workers {
		<-p.opened
	}
	store, err := pgstore.Open(c.t.Context(), c.place.DSN, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer store.Close()
	run, _, err := store.Start(c.t.Context(), &history.Start{Spec: history.Spec{Key: "slow", Workflow: "slow", Version: 1}, Input: []byte(`""`)})
	if err != nil {
		c.t.Fatal(err)
	}
	first := c.executor(run.ID, 0)
	stopped := c.workers[first.process]
	if err := stopped.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	before, next := c.handedOver(run.ID, first.token)
	// It was renewed when it was claimed, at the latest.
	if late := next.until.Add(-leaseTTL).Sub(before.until); late < 0 || late > takeover {
		c.t.Errorf("%s took the run over %s after the end of the lease of %s, want between 0 and %s", next.owner, late, before.owner, takeover)
	} else {
		c.t.Logf("taken over %s after the end of the lease", late)
	}
	second := c.executor(run.ID, 1)
	if err := os.WriteFile(c.place.gate(), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.await("the end of the run", func() bool {
		r, err := store.Run(c.t.Context(), run.ID)
		return err == nil && r.Status == history.StatusCompleted
	})
	if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
	c.kill(c.workers[second.process])
	// The stopped one has come to itself when it has executed another run.
	other, _, err := store.Start(c.t.Context(), &history.Start{Spec: history.Spec{Key: "other", Workflow: "slow", Version: 1}, Input: []byte(`""`)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.await("the end of the other run", func() bool {
		r, err := store.Run(c.t.Context(), other.ID)
		return err == nil && r.Status == history.StatusCompleted
	})
	events, err := store.History(c.t.Context(), run.ID, 1, 100)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == history.StepCompleted && e.Token != second.token {
			c.t.Errorf("the result of the step is recorded under %s, want %s, the second worker's", e.Token, second.token)
		}
	}
	c.kill(stopped)
	c.workers = nil
	c.judge(false)
}

// executor waits for the n-th execution of the step of a run.
func (c *cluster) executor(id history.RunID, n int) (x execution) {
	c.t.Helper()
	c.await(fmt.Sprintf("execution %d of the step", n), func() bool {
		c.log.mu.Lock()
		defer c.log.mu.Unlock()
		for _, xs := range c.log.executions[id] {
			if len(xs) > n {
				x = xs[n]
				return true
			}
		}
		return false
	})
	return x
}

// handedOver waits until another holds the run, and returns the lease that it had and the one that it has.
func (c *cluster) handedOver(id history.RunID, token history.Token) (before, now lease) {
	c.t.Helper()
	c.await("another worker", func() bool {
		before = now
		now = lease{}
		err := c.sql(fmt.Sprintf(`select coalesce(owner, ''), token_epoch, token, coalesce(lease_until, 0) from perdure_runs where id = '\x%x'`, id[:]),
			&now.owner, &now.token.Epoch, &now.token.Counter, &now.until)
		if err != nil {
			c.t.Fatal(err)
		}
		if now.until == 0 { // it has run out, and nobody has taken the run yet
			now = before
		}
		return now.token != token
	})
	return before, now
}

// await waits for a condition, for half a minute at most.
func (c *cluster) await(what string, condition func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s did not come within 30 s", what)
		}
	}
}
