package serve

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

// lookEvery is how often the server looks whether its files are where it left them.
const lookEvery = 3 * time.Second

// files are the store and the socket as they were when the server opened them.
type files struct{ store, socket fs.FileInfo }

// remember notes what the state folder holds.
func (s *server) remember() (err error) {
	if s.files.store, err = os.Stat(s.owned); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return s.rememberSocket()
}

func (s *server) rememberSocket() (err error) {
	if s.files.socket, err = os.Stat(s.opts.Dir.Socket()); err != nil {
		return fmt.Errorf("local socket: %w", err)
	}
	return nil
}

// same reports whether the file at path is the one that was remembered. One that cannot be looked at is taken for it, unless
// it is known not to exist.
func same(path string, was fs.FileInfo) bool {
	now, err := os.Stat(path)
	if err != nil {
		return !os.IsNotExist(err)
	}
	return os.SameFile(now, was)
}

// watchFiles makes the socket again where something removed it, such as a cleaner of temporary folders: without one nobody
// reaches the server, and its lock keeps every other away. It ends the server where the store's file is gone: what it
// acknowledged would be lost.
func (s *server) watchFiles(ctx context.Context, g *errgroup.Group, h *http.Server) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !same(s.owned, s.files.store) {
			return exit.New(exit.Failed, "put the file back, or restore a backup, before a server is started again",
				"the store %s was removed or replaced while it was in use: nothing more is accepted", s.owned)
		}
		if same(s.opts.Dir.Socket(), s.files.socket) {
			continue
		}
		l, err := s.listenSocket()
		if err == nil {
			err = s.rememberSocket()
		}
		if err != nil {
			s.opts.Log.Error("the local socket is gone and cannot be made again", "error", err)
			continue
		}
		s.opts.Log.Warn("the local socket was gone and is made again", "socket", s.opts.Dir.Socket())
		g.Go(func() error { return serveHTTP(h, l) })
	}
}
