package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// server is perdure serve on one state folder: one process after the other.
type server struct {
	binary    string
	folder    string
	drain     time.Duration
	witness   *witness
	sink      *sink
	retention time.Duration
	log       *logFile
	socket    *http.Client

	deploys int
	lives   int // processes that were started

	mu   sync.Mutex
	life *life // guarded by mu; nil while there is none that answers
}

// life is one process of the server.
type life struct {
	cmd    *exec.Cmd
	url    string        // of MCP
	exited chan struct{} // closed when the process has ended
	err    error         // of its end; set before exited is closed
}

func newServer(o *options, folder string, w *witness, k *sink) (*server, error) {
	log, err := newLogFile(filepath.Join(folder, "server.log"))
	if err != nil {
		return nil, err
	}
	s := &server{binary: o.perdure, folder: folder, drain: o.drain, retention: o.retention, witness: w, sink: k, log: log}
	if len(s.socketPath()) > 103 {
		return nil, fmt.Errorf("folder %s: its path is too long for a local socket; name a shorter one with --dir", folder)
	}
	s.socket = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", s.socketPath())
		},
	}}
	return s, nil
}

func (s *server) stateFolder() string { return filepath.Join(s.folder, "state") }
func (s *server) socketPath() string  { return filepath.Join(s.stateFolder(), "perdure.sock") }
func (s *server) database() string    { return filepath.Join(s.stateFolder(), "perdure.db") }
func (s *server) toolFile() string    { return filepath.Join(s.folder, "perdure.yaml") }

// deploy writes the next tool file.
func (s *server) deploy() error {
	s.deploys++
	return deploy{number: s.deploys, sink: s.sink.address, retention: s.retention}.write(s.toolFile())
}

// launch starts a process, and does not wait until it answers.
func (s *server) launch() (*life, error) {
	s.lives++
	s.sink.life.Store(int64(s.lives))
	l := &life{exited: make(chan struct{})}
	l.cmd = exec.Command(s.binary, "serve", "--http", "127.0.0.1:0", "--config", s.toolFile(), "--state", s.stateFolder(), "--drain", s.drain.String())
	l.cmd.Stdout, l.cmd.Stderr = s.log, s.log
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		l.err = l.cmd.Wait()
		close(l.exited)
	}()
	return l, nil
}

// patience bounds the start of a server.
const patience = time.Minute

// start starts a process and waits until it answers.
func (s *server) start(ctx context.Context) error {
	l, err := s.launch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		about, err := s.about(ctx)
		if err == nil && about.PID == l.cmd.Process.Pid && about.MCP != "" {
			l.url = about.MCP
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-l.exited:
			return fmt.Errorf("the server has ended at its start (%v): %s", l.err, s.log.tail())
		case <-ctx.Done():
			s.end(l, os.Kill)
			return fmt.Errorf("the server does not answer: %w (%v)", ctx.Err(), err)
		}
	}
	s.mu.Lock()
	s.life = l
	s.mu.Unlock()
	s.witness.up()
	return nil
}

// current is the process that answers; nil where there is none.
func (s *server) current() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// gone forgets the process that answers, before it is ended.
func (s *server) gone() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life
	s.life = nil
	return l
}

// end sends a signal and waits for the end. It returns how the process ended.
func (s *server) end(l *life, sig os.Signal) error {
	select {
	case <-l.exited:
		return fmt.Errorf("it had ended by itself (%v): %s", l.err, s.log.tail())
	default:
	}
	if err := l.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-l.exited:
		return nil
	case <-time.After(s.drain + patience):
		err := fmt.Errorf("it has not ended %s after %v", s.drain+patience, sig)
		_ = l.cmd.Process.Kill() // the error says enough
		<-l.exited
		return err
	}
}

// kill ends the server with SIGKILL.
func (s *server) kill(ctx context.Context) error {
	l := s.gone()
	s.witness.down()
	if err := s.end(l, os.Kill); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	return s.sink.settle(ctx)
}

// killAtStart starts a server and kills it before it answers, most of the time.
func (s *server) killAtStart(ctx context.Context, after time.Duration) error {
	l, err := s.launch()
	if err != nil {
		return err
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	if err := s.end(l, os.Kill); err != nil {
		return fmt.Errorf("kill the server at its start: %w", err)
	}
	return s.sink.settle(ctx)
}

// terminate ends the server with SIGTERM, as a deploy does. It must exit with 0.
func (s *server) terminate(ctx context.Context) error {
	l := s.gone()
	s.witness.down()
	if err := s.end(l, syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate the server: %w", err)
	}
	if l.err != nil {
		return fmt.Errorf("terminate the server: %w", l.err)
	}
	return s.sink.settle(ctx)
}

// verify runs perdure verify on the store of a server that has ended.
func (s *server) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.binary, "verify", s.database()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("perdure verify: %w: %s", err, clip(string(out), 2000))
	}
	return nil
}

// restart replaces the server that was ended: it checks what it left, kills some that try to start, and waits for one that
// answers.
func (s *server) restart(ctx context.Context, r *rand.Rand) error {
	if err := s.verify(ctx); err != nil {
		s.witness.violate("unsound", 0, "%v", err)
	}
	s.witness.count(func(c *counts) { c.Verifications++ })
	for r.IntN(4) == 0 && ctx.Err() == nil {
		if err := s.killAtStart(ctx, time.Duration(r.IntN(200))*time.Millisecond); err != nil {
			return err
		}
		s.witness.count(func(c *counts) { c.Kills, c.KillsAtStart = c.Kills+1, c.KillsAtStart+1 })
	}
	return s.start(ctx)
}

// about is what the server says of itself on its local socket.
type about struct {
	PID        int    `json:"pid"`
	MCP        string `json:"mcp"`
	Goroutines int    `json:"goroutines"`
}

func (s *server) about(ctx context.Context) (about, error) {
	var a about
	return a, s.local(ctx, http.MethodGet, "/v1/server", nil, &a)
}

// storeStats is the part of perdure stats that is sampled.
type storeStats struct {
	FileBytes  int64          `json:"fileBytes"`
	FreeBytes  int64          `json:"freeBytes"`
	Runs       map[string]int `json:"runs"`
	Tombstones int            `json:"tombstones"`
}

func (s *server) stats(ctx context.Context) (storeStats, error) {
	var st storeStats
	return st, s.local(ctx, http.MethodGet, "/v1/stats", nil, &st)
}

// sweep deletes what is due now, instead of within a minute.
func (s *server) sweep(ctx context.Context) error {
	return s.local(ctx, http.MethodPost, "/v1/retention/sweep", struct{}{}, nil)
}

// signal sends a signal as perdure signal does, and returns what became of it.
func (s *server) signal(ctx context.Context, run, name, id string, payload any) (delivery string, err error) {
	var out struct {
		Delivery string `json:"delivery"`
	}
	body := map[string]any{"name": name, "id": id, "payload": payload}
	return out.Delivery, s.local(ctx, http.MethodPost, "/v1/runs/"+run+"/signals", body, &out)
}

// refusal is an answer of the local socket that is an error.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("answered %d: %s", r.status, r.text) }

// local sends a request to the local socket.
func (s *server) local(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, r)
	if err != nil {
		return err
	}
	res, err := s.socket.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return &refusal{res.StatusCode, clip(strings.TrimSpace(string(b)), 300)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

func clip(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}
