package mcptasks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// A client that announces a body and does not send it holds no connection, whether it was let in or refused.
func TestBodyThatDoesNotComeHoldsNoConnection(t *testing.T) {
	const patience = 200 * time.Millisecond
	nobody := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return nil, auth.ErrInvalidToken
	}
	for name, c := range map[string]struct {
		options HTTPOptions
		host    string
		want    int
	}{
		"let in":            {HTTPOptions{BodyTimeout: patience}, "x", http.StatusRequestTimeout},
		"without a token":   {HTTPOptions{BodyTimeout: patience, Auth: nobody}, "x", http.StatusUnauthorized},
		"of a foreign host": {HTTPOptions{BodyTimeout: patience, Hosts: []string{"other"}}, "x", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewServer(newFakeEngine(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			handler, err := s.Handler(c.options)
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(handler)
			defer srv.Close()
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", c.host)
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("status %d, want %d", resp.StatusCode, c.want)
			}
			_, err = io.Copy(io.Discard, r)
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the connection stays open")
			}
		})
	}
}

func TestAnswerMayTakeLongerThanABody(t *testing.T) {
	const patience = 100 * time.Millisecond
	h := newHarnessHTTP(t, Options{}, HTTPOptions{BodyTimeout: patience})
	s, _ := h.initialize(nil)
	id := s.create2025()
	result := make(chan message, 1)
	go func() { result <- s.of(methodResult, id) }()
	h.engine.waiting(2) // the result, and the session's status
	select {
	case m := <-result:
		t.Fatalf("answered before the task was over: %s", m.raw)
	case <-time.After(5 * patience):
	}
	h.engine.complete(id, `"done"`)
	if m := within(t, result); !strings.Contains(m.raw, "done") {
		t.Errorf("%s", m.raw)
	}
}
