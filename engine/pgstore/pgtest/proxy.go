package pgtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Loss is what a request meets in a [Proxy].
type Loss int

const (
	// LoseRequest: the server does not get it, and its connection is cut.
	LoseRequest Loss = iota + 1
	// LoseReply: the server has executed it, the client is not told, and its connection is cut.
	LoseReply
	// LoseTime: it is kept back, as everything else is, until Resume.
	LoseTime
)

// String names the loss for output.
func (l Loss) String() string {
	switch l {
	case LoseRequest:
		return "request lost"
	case LoseReply:
		return "reply lost"
	case LoseTime:
		return "time lost"
	}
	return fmt.Sprintf("loss %d", int(l))
}

// Proxy stands on loopback between clients and a server, and breaks connections when it is told to. A request is all that a
// client sends after it was told that the server is ready for a query, up to the next time that it is told. The proxy is
// safe for concurrent use.
type Proxy struct {
	listener net.Listener
	socket   string
	links    sync.WaitGroup

	mu   sync.Mutex
	open map[*link]struct{} // guarded by mu
	// loss is armed, and after so many requests it happens, and closes met; 0: none is. guarded by mu
	loss  Loss
	after int
	met   chan struct{}
	// passing is closed while everything passes, and replaced by Stall. guarded by mu
	passing chan struct{}
	stalled bool // guarded by mu
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn

	mu sync.Mutex
	// ready says that the client was told so, and has sent nothing since. guarded by mu
	ready bool
	// mute says that what the server says does not reach the client. guarded by mu
	mute bool
}

func (l *link) cut() {
	_ = l.client.Close() // whatever it says, neither side is reached any more
	_ = l.server.Close()
}

// NewProxy starts a proxy to the server. It ends with Close.
func (s *Server) NewProxy() (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: l, socket: filepath.Join(s.dir, ".s.PGSQL.5432"), open: map[*link]struct{}{}, passing: make(chan struct{})}
	close(p.passing)
	p.links.Go(p.accept)
	return p, nil
}

// DSN is the connection string of a database of the server, through the proxy; direct is the one without.
func (p *Proxy) DSN(direct string) (string, error) {
	c, err := pgx.ParseConfig(direct)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable", p.listener.Addr().(*net.TCPAddr).Port, c.User, c.Database), nil
}

// Close cuts everything and returns when nothing is left of it.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Resume()
	p.Cut()
	p.links.Wait()
	return err
}

// Arm makes one request meet a loss: the one after the next n requests of all clients. It replaces what was armed. The
// channel is closed when it happens.
func (p *Proxy) Arm(l Loss, n int) (met <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss, p.after, p.met = l, n, make(chan struct{})
	return p.met
}

// Disarm takes back what is armed. It reports whether it has happened.
func (p *Proxy) Disarm() (happened bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	happened = p.loss == 0
	p.loss = 0
	return happened
}

// Cut cuts all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.cut()
	}
}

// Stall makes nothing pass, in any direction, until Resume: as a network does that drops every packet for a while.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall()
}

// stall is called with mu held.
func (p *Proxy) stall() {
	if !p.stalled {
		p.stalled, p.passing = true, make(chan struct{})
	}
}

// Resume ends a stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled {
		p.stalled = false
		close(p.passing)
	}
}

func (p *Proxy) pass() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passing
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = client.Close() // as if nobody listened
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.open[l] = struct{}{}
		p.mu.Unlock()
		p.links.Go(func() { p.forth(l) })
		p.links.Go(func() {
			p.back(l)
			p.mu.Lock()
			delete(p.open, l)
			p.mu.Unlock()
		})
	}
}

// forth takes bytes to the server.
func (p *Proxy) forth(l *link) {
	defer l.cut()
	buf := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		if p.begins(l) {
			return
		}
		<-p.pass()
		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// begins is told that the client has sent something. It reports whether that is lost.
func (p *Proxy) begins(l *link) (lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return false // more of the same request, or the greeting
	}
	l.ready = false
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss == 0 {
		return false
	}
	if p.after > 0 {
		p.after--
		return false
	}
	lost, l.mute = p.loss == LoseRequest, p.loss == LoseReply
	if p.loss == LoseTime {
		p.stall()
	}
	p.loss = 0
	close(p.met)
	return lost
}

// back takes messages to the client. A message is a byte that says what it is, and a length that counts itself.
func (p *Proxy) back(l *link) {
	defer l.cut()
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(l.server, head); err != nil {
			return
		}
		message := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
		copy(message, head)
		if _, err := io.ReadFull(l.server, message[len(head):]); err != nil {
			return
		}
		<-p.pass()
		if err := l.tell(message); err != nil {
			return
		}
	}
}

var errCut = errors.New("the reply is lost")

// tell takes a message to the client, or cuts it off where the reply that it ends is to be lost.
func (l *link) tell(message []byte) error {
	const readyForQuery = 'Z'
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute {
		if message[0] == readyForQuery {
			return errCut
		}
		return nil
	}
	l.ready = l.ready || message[0] == readyForQuery
	_, err := l.client.Write(message)
	return err
}
