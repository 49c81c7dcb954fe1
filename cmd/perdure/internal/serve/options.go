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
	// Store is the connection string of a PostgreSQL database that has the runs; empty: a file in the state folder has them.
	Store string
	// Address is the TCP address, for HTTP.
	Address string
	// AuthTokens is the file of the tokens that callers over HTTP must have (package tokens); empty: they need none.
	AuthTokens string
	// KeyFile is the file of the keys that payloads are encrypted with (package keyfile); empty: they are not. Compress makes
	// payloads smaller.
	KeyFile  string
	Compress bool
	// Retention is the file of the policy by which finished runs leave (package policyfile); empty: each tool says it.
	Retention string
	// AllowAnonymous lets HTTP listen beyond the loopback interface without tokens.
	AllowAnonymous bool
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

// CheckAddress refuses an address that is not on the loopback interface, unless callers have tokens or anybody may call, and
// returns it in the form to listen on. Whoever reaches a port without authentication can call every tool.
func (o *Options) CheckAddress() (string, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return "", exit.New(exit.Usage, "write HOST:PORT, such as 127.0.0.1:7337", "listen address %q: %w", o.Address, err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if o.AuthTokens == "" && !o.AllowAnonymous && !isLoopback(host) {
		return "", exit.New(exit.Usage,
			"give each caller a token: --auth-tokens FILE\nor use 127.0.0.1:"+port+", with a proxy that authenticates in front of it\nor let everybody call every tool: --allow-anonymous",
			"will not listen on %s without authentication: only on loopback addresses", o.Address)
	}
	return net.JoinHostPort(host, port), nil
}

// isLoopback reports whether a host is an address on the loopback interface. A name is none: it may mean another one tomorrow.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
