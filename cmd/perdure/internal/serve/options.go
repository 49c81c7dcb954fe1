package serve

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine/boltstore"
)

// Mode says what a server serves beside its local socket.
type Mode string

const (
	// Socket serves nothing else.
	Socket Mode = "socket"
	// HTTP serves a TCP port.
	HTTP Mode = "http"
	// Stdio serves one client on stdin and stdout, and ends with it.
	Stdio Mode = "stdio"
)

// Options of a server.
type Options struct {
	Dir state.Dir
	// Config is the absolute path of the tool file.
	Config string
	Mode   Mode
	// Address is the TCP address, for HTTP.
	Address string
	// In and Out are the client, for Stdio.
	In  io.ReadCloser
	Out io.WriteCloser
	// Drain bounds how long running steps have at the end. Default 50 s: less than what systemd and container
	// runtimes are told to wait.
	Drain time.Duration
	// IdleExit ends a server that has no client and no live run for so long; 0 means never.
	IdleExit time.Duration
	// Guard is the command of a process that calls runstep.ServeGuard; empty: steps' programs have no guard.
	Guard []string
	// Reload asks for the tools to be loaded anew, as a SIGHUP does.
	Reload  <-chan struct{}
	Version string
	Log     *slog.Logger
}

// ballast is the room in bytes that is kept for a full disk: for a few thousand commits.
const ballast = 4 << 20

// storeOptions are the store's. A server that ends by itself was started by a launcher, which tries again where another
// has the lock: it does not wait for it, lest the loser of a race become the server after the winner has left.
func (o *Options) storeOptions() *boltstore.Options {
	s := &boltstore.Options{Ballast: ballast}
	if o.IdleExit > 0 {
		s.LockTimeout = time.Millisecond
	}
	return s
}

// CheckAddress refuses an address that is not on the loopback interface, and returns it in the form to listen on.
// Without authentication, whoever reaches the port can call every tool.
func CheckAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", exit.New(exit.Usage, "write HOST:PORT, such as 127.0.0.1:7337", "listen address %q: %w", address, err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return "", exit.New(exit.Usage,
			"use 127.0.0.1:"+port+"; to serve others, put a proxy that authenticates in front of it",
			"will not listen on %s: the server has no authentication, so it listens on loopback addresses only", address)
	}
	return net.JoinHostPort(host, port), nil
}
