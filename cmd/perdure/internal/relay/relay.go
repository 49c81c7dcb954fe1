package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"
)

// Relay passes the messages of one client on. All its state belongs to the goroutine of Run.
type Relay struct {
	In  io.Reader
	Out io.Writer
	// Connect finds a server, or starts one. Its error ends the relay.
	Connect func(ctx context.Context) (net.Conn, error)
	Log     *slog.Logger

	conn net.Conn
	// server are the lines of conn, lost why there are no more.
	server <-chan []byte
	lost   *error
	// number counts the connections.
	number int
	// pending are the client's requests without an answer, in order; sent counts how often each was sent.
	pending []pending
	// asked are the server's requests on this connection that the client has not answered, by the id that it sees.
	asked map[string]json.RawMessage
	// initialize and initialized are an older client's handshake, to be repeated.
	initialize, initialized *message
	// muted is the id of a repeated initialize, whose answer the client does not get.
	muted string
}

type pending struct {
	message
	sent int
}

const (
	// maxSent bounds how often a request is sent: one that ends the server must not end every server.
	maxSent = 3
	// lastWords is how long answers are waited for once the client has closed its side: longer than a call waits for its
	// result.
	lastWords = time.Minute
)

// Run passes messages on until the client closes its side or ctx ends. It returns an error where no server can be had.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ended error
	client := scan(ctx, r.In, &ended)
	if err := r.connect(ctx); err != nil {
		return ignoreEnd(ctx, err)
	}
	defer func() { _ = r.conn.Close() }() // nothing is owed to it any more
	var give <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-give:
			return nil
		case line, ok := <-client:
			if !ok {
				if !errors.Is(ended, io.EOF) {
					return fmt.Errorf("read from the client: %w", ended)
				}
				r.pending = slices.DeleteFunc(r.pending, func(p pending) bool { return p.Method == "subscriptions/listen" }) // they have no end
				if len(r.pending) == 0 {
					return nil
				}
				client, give = nil, time.After(lastWords)
				continue
			}
			if err := r.fromClient(line); err != nil {
				return err
			}
		case line, ok := <-r.server:
			if ok {
				if err := r.fromServer(line); err != nil {
					return err
				}
				if client == nil && len(r.pending) == 0 {
					return nil
				}
				continue
			}
			r.Log.Warn("the server is gone; connecting again", "cause", *r.lost)
			if err := r.reconnect(ctx); err != nil {
				return ignoreEnd(ctx, err)
			}
		}
	}
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (r *Relay) connect(ctx context.Context) error {
	conn, err := r.Connect(ctx)
	if err != nil {
		return err
	}
	r.number++
	r.conn, r.lost, r.asked = conn, new(error), map[string]json.RawMessage{}
	r.server = scan(ctx, conn, r.lost)
	return nil
}

// reconnect replaces a lost connection, and brings the new one to where the old one was.
func (r *Relay) reconnect(ctx context.Context) error {
	_ = r.conn.Close() // it has failed already
	for _, id := range r.asked {
		if err := r.toClient(void(id)); err != nil {
			return err
		}
	}
	if err := r.connect(ctx); err != nil {
		for _, p := range r.pending {
			if err := r.toClient(failure(p.ID, codeInternal, "the server is gone and cannot be started again; work that it has accepted goes on when it is started")); err != nil {
				return err
			}
		}
		return err
	}
	r.greet()
	waiting := r.pending
	r.pending = nil
	for _, p := range waiting {
		if p.sent >= maxSent {
			if err := r.toClient(failure(p.ID, codeInternal, fmt.Sprintf("the server was lost %d times while it had this request", p.sent))); err != nil {
				return err
			}
			continue
		}
		r.send(p)
	}
	return nil
}

// greet repeats an older client's handshake. Where its initialize is still without an answer, it is sent as all
// requests are.
func (r *Relay) greet() {
	r.muted = ""
	if r.initialize == nil || r.isPending(r.initialize.ID) {
		return
	}
	r.muted = fmt.Sprintf(`"relay-%d"`, r.number)
	hello := r.initialize.with("id", json.RawMessage(r.muted))
	r.write(hello.line)
	if r.initialized != nil {
		r.write(r.initialized.line)
	}
}

func (r *Relay) isPending(id json.RawMessage) bool {
	return slices.ContainsFunc(r.pending, func(p pending) bool { return bytes.Equal(p.ID, id) })
}

// fromClient passes a message of the client's on.
func (r *Relay) fromClient(line []byte) error {
	if !json.Valid(line) {
		return r.toClient(failure(nil, codeParse, "the line is not JSON, or is nested too deep"))
	}
	m := read(line)
	if bad := check(line, r.batches()); bad != nil {
		return r.toClient(failure(bad.id, codeInvalid, bad.text))
	}
	switch {
	case len(line) > maxMessage && m.isRequest():
		return r.toClient(failure(m.ID, codeInvalid, fmt.Sprintf("the message has %d bytes, at most %d are passed on", len(line), maxMessage)))
	case m.isResponse():
		id, ok := r.asked[string(m.ID)]
		if !ok {
			return nil // to a server that is gone
		}
		delete(r.asked, string(m.ID))
		m = m.with("id", unprefixed(id))
	case m.isRequest():
		if m.Method == "initialize" {
			r.initialize = &m
		}
		r.send(pending{message: m.withKey()})
		return nil
	case m.Method == "notifications/initialized":
		r.initialized = &m
	case m.Method == "notifications/cancelled":
		r.forget(m)
	}
	r.write(m.line)
	return nil
}

// forget drops a request that the client has taken back: it need not be sent again.
func (r *Relay) forget(m message) {
	var params struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) == nil {
		r.settle(spelled(params.ID))
	}
}

// settle removes a request from those without an answer.
func (r *Relay) settle(id json.RawMessage) {
	r.pending = slices.DeleteFunc(r.pending, func(p pending) bool { return bytes.Equal(p.ID, id) })
}

// send sends a request that will have an answer.
func (r *Relay) send(p pending) {
	p.sent++
	r.pending = append(r.pending, p)
	r.write(p.line)
}

// write writes to the server. An error shows at the reading end too, and is acted on there.
func (r *Relay) write(line []byte) {
	if _, err := r.conn.Write(append(bytes.Clone(line), '\n')); err != nil {
		r.Log.Debug("write to the server", "error", err)
		_ = r.conn.Close() // ends the reading end, where it has not
	}
}

// fromServer passes a message of the server's on.
func (r *Relay) fromServer(line []byte) error {
	m := read(line)
	switch {
	case m.isResponse():
		if r.muted != "" && string(m.ID) == r.muted {
			r.muted = ""
			return nil
		}
		r.settle(m.ID)
	case m.isRequest():
		m = m.with("id", r.prefixed(m.ID))
		r.asked[string(m.ID)] = m.ID
	case m.Method == "notifications/cancelled":
		m = r.cancelled(m)
	}
	return r.toClient(m.line)
}

// cancelled renames the request that the server takes back.
func (r *Relay) cancelled(m message) message {
	var params map[string]json.RawMessage
	if json.Unmarshal(m.Params, &params) != nil || len(params["requestId"]) == 0 {
		return m
	}
	b, err := json.Marshal(r.prefixed(params["requestId"]))
	if err != nil {
		return m
	}
	params["requestId"] = b
	delete(r.asked, string(b))
	return m.with("params", params)
}

// prefixed is the id by which the client sees a request of this connection's: "c2:7".
func (r *Relay) prefixed(id json.RawMessage) string { return fmt.Sprintf("c%d:%s", r.number, id) }

// unprefixed undoes prefixed; seen is the JSON of the id.
func unprefixed(seen json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(seen, &text) != nil {
		return seen
	}
	_, id, _ := bytes.Cut([]byte(text), []byte(":"))
	return id
}

func (r *Relay) toClient(line []byte) error {
	if _, err := r.Out.Write(append(bytes.Clone(line), '\n')); err != nil {
		return fmt.Errorf("write to the client: %w", err)
	}
	return nil
}
