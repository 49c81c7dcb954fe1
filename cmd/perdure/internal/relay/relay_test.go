package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
)

// rig is a relay between a client and servers that a test plays.
type rig struct {
	t       *testing.T
	in      *io.PipeWriter
	out     *bufio.Scanner
	servers chan net.Conn
	server  net.Conn
	lines   *bufio.Scanner
	ended   chan error
}

var errNoServer = errors.New("no server can be started")

func newRig(t *testing.T) *rig {
	r := &rig{t: t, servers: make(chan net.Conn), ended: make(chan error, 1)}
	in, w := io.Pipe()
	fromRelay, out := io.Pipe()
	r.in, r.out = w, bufio.NewScanner(fromRelay)
	r.out.Buffer(nil, maxLine)
	relay := &Relay{In: in, Out: out, Log: slog.New(slog.DiscardHandler), Connect: func(ctx context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case r.servers <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	go func() {
		err := relay.Run(t.Context())
		_ = out.Close()
		r.ended <- err
	}()
	return r
}

// connect is a new server that takes the relay's connection.
func (r *rig) connect() {
	r.server = <-r.servers
	r.lines = bufio.NewScanner(r.server)
	r.lines.Buffer(nil, maxLine)
}

func (r *rig) client(line string) { fmt.Fprintln(r.in, line) }
func (r *rig) serve(line string)  { fmt.Fprintln(r.server, line) }

func next(t *testing.T, s *bufio.Scanner) string {
	t.Helper()
	if !s.Scan() {
		t.Fatalf("no line: %v", s.Err())
	}
	return s.Text()
}

func (r *rig) atServer(want string) string {
	r.t.Helper()
	got := next(r.t, r.lines)
	if !strings.Contains(got, want) {
		r.t.Fatalf("the server got %s, want %s", got, want)
	}
	return got
}

func (r *rig) atClient(want string) string {
	r.t.Helper()
	got := next(r.t, r.out)
	if !strings.Contains(got, want) {
		r.t.Fatalf("the client got %s, want %s", got, want)
	}
	return got
}

func TestRequestsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.client(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"big":12345678901234567890}}}`)
		first := r.atServer(`"perdure.dev/idempotency-key":"relay-`)
		if !strings.Contains(first, "12345678901234567890") {
			t.Errorf("a number was changed: %s", first)
		}
		r.client(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		r.atServer(`"id":2`)
		r.serve(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		r.atClient(`"id":2`)
		r.client(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		r.atServer(`"id":3`)
		r.client(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		r.atServer(`notifications/cancelled`)
		_ = r.server.Close()
		r.connect()
		// The call, under its first key; not what was answered or taken back.
		if again := r.atServer(`"id":"a"`); again != first {
			t.Errorf("sent again as %s, first as %s", again, first)
		}
		r.serve(`{"jsonrpc":"2.0","id":"a","result":{"content":[]}}`)
		r.atClient(`"id":"a"`)
		_ = r.in.Close()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestARequestThatEndsServersIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.client(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		for range maxSent {
			r.atServer(`"id":1`)
			_ = r.server.Close()
			r.connect()
		}
		r.atClient(`the server was lost 3 times while it had this request`)
		_ = r.in.Close()
		<-r.ended
	})
}

func TestHandshakeIsRepeatedAndItsAnswerKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.client(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
		r.atServer(`"initialize"`)
		r.serve(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		r.atClient(`"id":1`)
		r.client(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		r.atServer(`notifications/initialized`)
		_ = r.server.Close()
		r.connect()
		hello := r.atServer(`"initialize"`)
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.Unmarshal([]byte(hello), &m); err != nil || string(m.ID) == "1" {
			t.Fatalf("the repeated handshake is %s (%v)", hello, err)
		}
		r.atServer(`notifications/initialized`)
		r.serve(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		r.serve(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		r.atClient(`list_changed`) // and not a second answer to initialize
		_ = r.in.Close()
		<-r.ended
	})
}

func TestRequestsOfALostServerAreVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.serve(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"one"}}`)
		r.atClient(`"id":"c1:7"`)
		_ = r.server.Close()
		r.atClient(`"requestId":"c1:7"`)
		r.connect()
		r.serve(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"two"}}`)
		r.atClient(`"id":"c2:7"`)
		r.client(`{"jsonrpc":"2.0","id":"c1:7","result":{"action":"cancel"}}`)
		r.client(`{"jsonrpc":"2.0","id":"c2:7","result":{"action":"accept"}}`)
		if got := r.atServer(`"id":7`); !strings.Contains(got, "accept") {
			t.Errorf("the answer to a lost server reached the new one: %s", got)
		}
		r.serve(`{"jsonrpc":"2.0","id":8,"method":"elicitation/create"}`)
		r.atClient(`"id":"c2:8"`)
		r.serve(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
		r.atClient(`"requestId":"c2:8"`)
		_ = r.in.Close()
		<-r.ended
	})
}

func TestOddLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.client(`nonsense`)
		r.atClient(`-32700`)
		r.client(``)
		r.client(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"s":"` + strings.Repeat("x", maxMessage) + `"}}}`)
		r.atClient(`"id":1,"error":{"code":-32600`)
		deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
		r.client(`{"jsonrpc":"2.0","id":2,"method":"x","params":` + deep + `}`)
		r.atClient(`-32700`)
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":null,"method":"x"}`, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":7}`,
			`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":7}}`,
		} {
			r.client(line)
			if got := r.atServer(""); got != line {
				t.Errorf("%s was passed on as %s", line, got)
			}
		}
		_ = r.in.Close()
		r.serve(`{"jsonrpc":"2.0","id":4,"error":{}}`)
		r.atClient(`"id":4`)
		r.serve(`{"jsonrpc":"2.0","id":5,"error":{}}`)
		r.atClient(`"id":5`)
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

// Where no server can be had, the client gets an answer to what it asked, and the relay ends with the reason.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		fromRelay, out := io.Pipe()
		server, ours := net.Pipe()
		var calls int
		relay := &Relay{In: in, Out: out, Log: slog.New(slog.DiscardHandler), Connect: func(context.Context) (net.Conn, error) {
			if calls++; calls > 1 {
				return nil, errNoServer
			}
			return ours, nil
		}}
		ended := make(chan error, 1)
		go func() { ended <- relay.Run(t.Context()) }()
		fmt.Fprintln(client, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		next(t, bufio.NewScanner(server))
		_ = server.Close()
		if got := next(t, bufio.NewScanner(fromRelay)); !strings.Contains(got, `"id":1,"error"`) {
			t.Errorf("the client got %s", got)
		}
		if err := <-ended; !errors.Is(err, errNoServer) {
			t.Errorf("the relay ended with %v", err)
		}
		_ = client.Close()
	})
}
