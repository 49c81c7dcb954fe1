//go:build unix

package crashtest

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
)

// A cluster is several processes on one database: workers, which execute the runs, and one that is all the clients. They reach
// the database by a proxy on loopback. What is said and how it is judged is as with one process on a file.
//
//	PERDURE_CLUSTER_KILLS=2000 go test -run Cluster -timeout 0 ./engine/crashtest     more kills, and as many more faults
type cluster struct {
	parent
	server  *pgtest.Server
	proxy   *pgtest.Proxy
	through place // as the children reach it
	workers []*process
	clients *process
	started int // processes
	kills   int
	faults  map[fault]int
}

// fault is something that happens to a cluster beside the kills.
type fault string

const (
	serverKilled  fault = "the server killed"
	backendsEnded fault = "all sessions terminated"
	allCut        fault = "all connections cut"
	requestLost   fault = "a request lost"
	replyLost     fault = "a reply lost"
	stall         fault = "nothing passes for a while"
	promoted      fault = "a promotion"
	longStop      fault = "a worker stopped for longer than its lease"
)

// faultsOfRound are those of one round, beside the kills. The server is killed in one round of two.
var faultsOfRound = []fault{backendsEnded, allCut, requestLost, requestLost, requestLost, replyLost, replyLost, replyLost, replyLost, stall, promoted, longStop}

const (
	// workersOfCluster is how many workers there are at a time.
	workersOfCluster = 3
	// killsOfRound is how many kills there are of single processes in a round, which ends with a kill of all of them.
	killsOfRound = 7
	// longestPause is how long a round waits at most between two of its faults.
	longestPause = 150 * time.Millisecond
)

// TestCluster breaks a cluster in every way: surviveFaults kills its processes, its server and its connections, and judges what
// is in the database when nothing is left of them; then it goes on. In the last round, with kills of workers only, everything
// comes to its end.
func TestCluster(t *testing.T) {
	server := pgtest.New(t, "fsync=off", "full_page_writes=off") // what is killed is its process, not the machine
	child := buildChild(t, clusterEdits...)
	t.Run("a worker that was stopped", func(t *testing.T) { newCluster(t, server, child, 1).overtakes() })
	t.Run("kills and faults", func(t *testing.T) { surviveFaults(t, server, child) })
}

func surviveFaults(t *testing.T, server *pgtest.Server, child string) {
	kills, seed := number(t, "PERDURE_CLUSTER_KILLS", 44), number(t, "PERDURE_CRASH_SEED", 1)
	c := newCluster(t, server, child, seed)
	for c.kills < kills && !t.Failed() {
		c.round()
		c.life++
		c.judge(false)
	}
	if t.Failed() {
		return
	}
	c.last()
	t.Logf("%d kills, seed %d; and %v", c.kills, seed, c.faults)
}

func newCluster(t *testing.T, server *pgtest.Server, child string, seed int) *cluster {
	t.Helper()
	dsn, err := server.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	proxy, err := server.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		parent: parent{
			t: t, child: child, place: place{Dir: t.TempDir(), DSN: dsn}, log: newWitnessLog(), seen: map[history.RunID]settled{},
			random: rand.New(rand.NewPCG(uint64(seed), 0)),
		},
		server: server, proxy: proxy, faults: map[fault]int{},
	}
	t.Cleanup(func() {
		for _, p := range append(c.workers, c.clients) {
			if p != nil {
				c.kill(p)
			}
		}
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	c.through = c.place
	if c.through.DSN, err = proxy.DSN(dsn); err != nil {
		t.Fatal(err)
	}
	// A process may be stopped in the middle of a transaction, and leases are short.
	c.through.DSN += fmt.Sprintf(" idle_in_transaction_session_timeout=%d", (leaseTTL / 2).Milliseconds())
	return c
}

// start starts a process of the cluster.
func (c *cluster) start(l life) *process {
	c.t.Helper()
	l.place, l.Number, l.Process, l.Seed = c.through, c.life, c.started, c.random.Uint64()
	c.started++
	return c.begin(c.command(l, ""))
}

// kill ends a process, if it has not ended, and waits until all that it said is taken down.
func (c *cluster) kill(p *process) {
	c.t.Helper()
	_ = p.cmd.Process.Kill()
	<-p.ended
	if p.cmd.ProcessState.Exited() {
		c.t.Errorf("a process of the cluster ended by itself: %v", p.err)
	}
	c.kills++
}

// killAll ends all processes at once, and waits until the server has done what they had asked for.
func (c *cluster) killAll() {
	c.t.Helper()
	all := append(c.workers, c.clients)
	for _, p := range all {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range all {
		c.kill(p)
	}
	c.workers, c.clients = nil, nil
	c.proxy.Resume()
	c.proxy.Cut()
	c.quiet()
}

// quiet waits until no session is left in the database.
func (c *cluster) quiet() {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		var others int
		err := c.sql("select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()", &others)
		if err == nil && others == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%d sessions of killed processes are left after 30 s: %v", others, err)
		}
	}
}

// sql reads one row from the database.
func (c *cluster) sql(query string, into ...any) error {
	conn, err := pgx.Connect(c.t.Context(), c.place.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(c.t.Context())
	return conn.QueryRow(c.t.Context(), query).Scan(into...)
}

// fill starts the workers that are missing.
func (c *cluster) fill() {
	for len(c.workers) < workersOfCluster {
		c.workers = append(c.workers, c.start(life{Role: worked}))
	}
}

// killOne kills a process, and starts another in its place.
func (c *cluster) killOne() {
	n := c.random.IntN(workersOfCluster + 1)
	if n == workersOfCluster {
		c.kill(c.clients)
		c.clients = c.start(life{Role: called})
		return
	}
	c.killWorker(n)
}

func (c *cluster) killWorker(n int) {
	c.kill(c.workers[n])
	c.workers = append(c.workers[:n], c.workers[n+1:]...)
	c.fill()
}

// round is kills and faults in any order, and a kill of everything.
func (c *cluster) round() {
	c.t.Helper()
	c.fill()
	c.clients = c.start(life{Role: called})
	events := make([]fault, killsOfRound, killsOfRound+len(faultsOfRound)+1) // "" is a kill
	events = append(events, faultsOfRound...)
	if c.life%2 == 0 {
		events = append(events, serverKilled)
	}
	c.random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, f := range events {
		time.Sleep(time.Duration(c.random.Int64N(int64(longestPause))))
		if f == "" {
			c.killOne()
			continue
		}
		c.faults[f]++
		if err := c.happen(f); err != nil {
			c.t.Errorf("%s: %v", f, err)
		}
	}
	c.killAll()
}

// happen makes a fault happen.
func (c *cluster) happen(f fault) error {
	switch f {
	case serverKilled:
		if err := c.server.Kill(); err != nil {
			return err
		}
		return c.server.Restart(c.t.Context())
	case backendsEnded:
		var n int
		return c.sql("select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()", &n)
	case allCut:
		c.proxy.Cut()
	case requestLost:
		c.proxy.Arm(pgtest.LoseRequest, c.random.IntN(20))
	case replyLost:
		c.proxy.Arm(pgtest.LoseReply, c.random.IntN(20))
	case stall:
		c.proxy.Stall()
		time.AfterFunc(time.Duration(c.random.Int64N(int64(leaseTTL/2))), c.proxy.Resume)
	case promoted:
		_, err := pgstore.Promote(c.t.Context(), c.place.DSN)
		return err
	case longStop:
		return c.stop(c.workers[c.random.IntN(workersOfCluster)])
	default:
		return fmt.Errorf("no such fault")
	}
	return nil
}

// stop stops a worker for longer than its lease. It may be killed meanwhile.
func (c *cluster) stop(p *process) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.AfterFunc(leaseTTL*3/2, func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
	return nil
}

// last lets everything come to its end, while workers are killed.
func (c *cluster) last() {
	c.t.Helper()
	c.fill()
	c.clients = c.start(life{Role: called, Last: true})
	for range killsOfRound {
		time.Sleep(time.Duration(c.random.Int64N(int64(longestPause))))
		c.killWorker(c.random.IntN(workersOfCluster))
	}
	select {
	case <-c.clients.ended:
	case <-time.After(2 * time.Minute):
		c.t.Error("the runs have not ended after two minutes")
		_ = c.clients.cmd.Process.Signal(syscall.SIGQUIT)
	}
	<-c.clients.ended
	if c.clients.err != nil || !c.log.ended {
		c.t.Errorf("the clients ended: %v", c.clients.err)
	}
	c.clients = nil
	for _, p := range c.workers {
		c.kill(p)
	}
	c.workers = nil
	c.quiet()
	c.judge(true)
}
