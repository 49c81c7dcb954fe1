// Package pgtest runs a PostgreSQL server for tests: a cluster of its own in a temporary folder, reached by a socket in that
// folder, with an empty database for each test.
//
// The programs come from the PATH or from Debian's folder. PostgreSQL refuses to run as root, so a test that runs as root
// starts it as the user postgres or nobody. Where there is no PostgreSQL, Start returns an error that matches ErrMissing
// and says how to have it.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: apt-get install postgresql, or put the folder of initdb and postgres on the PATH")

// role owns the cluster and its databases.
const role = "perdure"

// Server is a running server.
type Server struct {
	dir       string
	bin       string
	owner     *user.User // nil: whoever runs the test
	settings  []string
	process   *exec.Cmd
	ended     chan error
	log       bytes.Buffer
	databases atomic.Int64
}

// Start makes a cluster and starts its server. Settings are options of postgres, such as "fsync=off".
func Start(ctx context.Context, settings ...string) (s *Server, err error) {
	s = &Server{settings: settings}
	if s.bin, err = programs(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "perdure-pg-"); err != nil {
		return nil, err
	}
	dir := s.dir // an error is returned without the server
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := s.chown(); err != nil {
		return nil, err
	}
	initdb := s.command(ctx, "initdb", "-D", s.data(), "-U", role, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// New starts a server for a test, and stops it at its end. Without PostgreSQL the test is skipped.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Start(t.Context(), settings...)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// programs returns the folder that has initdb and postgres; "" where they are on the PATH.
func programs() (string, error) {
	if _, err := exec.LookPath("initdb"); err == nil {
		if _, err := exec.LookPath("postgres"); err == nil {
			return "", nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// chown gives the folder to the user that PostgreSQL runs as.
func (s *Server) chown() error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			s.owner = u
			break
		}
	}
	if s.owner == nil {
		return errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
	}
	uid, _ := strconv.Atoi(s.owner.Uid) // of a Unix system
	gid, _ := strconv.Atoi(s.owner.Gid)
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if s.bin != "" {
		name = filepath.Join(s.bin, name)
	}
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = s.dir
	s.runAs(c)
	return c
}

// Restart starts the server again, after Kill or Stop, and waits until it answers.
func (s *Server) Restart(ctx context.Context) error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200"}
	for _, o := range s.settings {
		args = append(args, "-c", o)
	}
	s.process = s.command(context.WithoutCancel(ctx), "postgres", args...)
	s.process.Stderr = &s.log
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	s.ended = make(chan error, 1)
	go func(p *exec.Cmd, ended chan error) { ended <- p.Wait() }(s.process, s.ended)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case err := <-s.ended:
			return fmt.Errorf("postgres ended: %w: %s", err, s.log.String())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the server with SIGKILL, as a crash does, and its children with it.
func (s *Server) Kill() error {
	if err := s.process.Process.Kill(); err != nil {
		return err
	}
	<-s.ended // its children see that it is gone, and end
	return nil
}

// Stop ends the server at once, in order, and removes the cluster.
func (s *Server) Stop() error {
	err := s.process.Process.Signal(os.Interrupt) // "fast": connections are cut
	if err == nil {
		<-s.ended
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// DSN is the connection string of a database.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("host=%s user=%s dbname=%s", s.dir, role, database)
}

// URL is the connection string of a database in the other form.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: url.Values{"host": {s.dir}}.Encode()}
	return u.String()
}

// NewDatabase makes an empty database and returns its connection string.
func (s *Server) NewDatabase(ctx context.Context) (dsn string, err error) {
	return s.copyDatabase(ctx, "template1")
}

// copyDatabase makes a copy of a database that nobody is connected to, and returns its connection string.
func (s *Server) copyDatabase(ctx context.Context, from string) (dsn string, err error) {
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.create(ctx, name, from); err != nil {
		return "", err
	}
	return s.DSN(name), nil
}

func (s *Server) create(ctx context.Context, name, from string) (err error) {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	_, err = c.Exec(ctx, "create database "+name+" template "+from)
	return err
}
