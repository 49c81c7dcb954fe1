package mcptasks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeLines serves one connection whose messages are lines of JSON, such as stdin and stdout, until the client closes
// it or ctx ends. All its requests are the caller's. It closes both ends.
//
// A client that closes its side after its last request still gets its answers: requests under way have a minute. Only
// subscriptions end at once.
//
// Unlike the SDK's transport it survives every line: one that is no message is refused, and the next is read.
func (s *Server) ServeLines(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller Caller) error {
	return s.ServeTransport(ctx, s.lines(in, out), caller)
}

func (s *Server) lines(in io.ReadCloser, out io.WriteCloser) mcp.Transport {
	return &lineTransport{in: in, out: out, limit: s.opts.MaxMessageBytes, depth: s.opts.MaxDepth}
}

type lineTransport struct {
	in    io.ReadCloser
	out   io.WriteCloser
	limit int64
	depth int
}

// lineSlack is how much longer than a message a line may be: so a message that is a little too long is refused under
// its id.
const lineSlack = 64 << 10

func (t *lineTransport) Connect(context.Context) (mcp.Connection, error) {
	c := &lineConnection{transport: t, incoming: make(chan line), closed: make(chan struct{}), owed: newOwed()}
	go c.readLines()
	return c, nil
}

// line is one line of the client. Where it was too long it is cut off.
type line struct {
	text []byte
	long bool
	err  error // io.EOF, or that of the reader
}

type lineConnection struct {
	transport *lineTransport
	incoming  chan line
	closed    chan struct{}
	closeOnce sync.Once
	owed      *owed

	mu sync.Mutex // is held while a message is written
}

// SessionID implements mcp.Connection. Connections have no id.
func (c *lineConnection) SessionID() string { return "" }

// readLines runs on its own, because a read of stdin cannot be interrupted.
func (c *lineConnection) readLines() {
	r := bufio.NewReader(c.transport.in)
	for {
		l := readLine(r, int(c.transport.limit)+lineSlack)
		select {
		case c.incoming <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads up to the next newline, and keeps at most limit bytes of it.
func readLine(r *bufio.Reader, limit int) line {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		if room := limit - len(l.text); len(part) > room {
			l.long = true
			part = part[:room]
		}
		l.text = append(l.text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.text) > 0:
			return l // the next read says so again
		}
		l.err = err
		return l
	}
}

// refusedLine is what Read gives for a line that is no message. shimConnection answers it.
type refusedLine struct {
	id    jsonrpc.ID // invalid where it is unknown
	cause error      // a *jsonrpc.Error
}

func (e *refusedLine) Error() string { return "refused: " + e.cause.Error() }

// Read implements mcp.Connection. It returns a *refusedLine for what is no message.
func (c *lineConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case l := <-c.incoming:
			if l.err != nil {
				return nil, c.leave(ctx, l.err)
			}
			text := bytes.TrimSpace(l.text)
			if len(text) == 0 {
				continue
			}
			msg, err := c.decode(text, l.long)
			if req, ok := msg.(*jsonrpc.Request); ok {
				c.owed.read(req)
			}
			return msg, err
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// lastWords is how long the answers that a client waits for have once it has closed its side: longer than a call waits for
// its result by default.
const lastWords = time.Minute

// leave returns the reader's error once the client owes nothing and is owed nothing: the SDK would cancel what is under way.
func (c *lineConnection) leave(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	bound := time.NewTimer(lastWords)
	defer bound.Stop()
	select {
	case <-c.owed.settled():
	case <-bound.C:
	case <-c.closed:
	case <-ctx.Done():
	}
	return err
}

func (c *lineConnection) decode(text []byte, long bool) (jsonrpc.Message, error) {
	refuse := func(code int64, format string, a ...any) (jsonrpc.Message, error) {
		return nil, &refusedLine{lineID(text), &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, a...)}}
	}
	if long {
		return refuse(jsonrpc.CodeInvalidRequest, "the message is larger than %d bytes", c.transport.limit)
	}
	if err := checkFrame(text, c.transport.depth); err != nil {
		return nil, &refusedLine{lineID(text), err}
	}
	if !json.Valid(text) {
		return refuse(jsonrpc.CodeParseError, "the line is not one JSON value")
	}
	if text[0] == '[' {
		return refuse(jsonrpc.CodeInvalidRequest, "batches are not supported")
	}
	if f := readFrame(text); f.method != "" && len(f.id) > 0 && !validID(f.id) {
		return refuse(jsonrpc.CodeInvalidRequest, "id: want a string or an integer of up to 53 bits")
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return refuse(jsonrpc.CodeInvalidRequest, "the line is no JSON-RPC 2.0 message")
	}
	return msg, nil
}

// lineID finds the id of a request in what may be cut off, nested too deep, or no JSON at all. It does not recurse. The id
// of a response is none: an answer under it would seem to be one to a request of the client's own.
func lineID(text []byte) (id jsonrpc.ID) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	hasMethod := false
	for depth, key := 0, ""; !hasMethod || !id.IsValid(); {
		tok, err := dec.Token()
		if err != nil {
			return jsonrpc.ID{}
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			key = ""
			continue
		}
		switch {
		case depth != 1:
		case key == "":
			key, _ = tok.(string) // keys are strings; an array's elements alternate as well, and have no names that count
		default:
			hasMethod = hasMethod || key == "method"
			if key == "id" {
				id = makeID(tok)
			}
			key = ""
		}
	}
	return id
}

// makeID makes an id of a token; an invalid one where it can be none.
func makeID(tok json.Token) jsonrpc.ID {
	switch v := tok.(type) {
	case string:
		id, err := jsonrpc.MakeID(v)
		if err == nil {
			return id
		}
	case json.Number:
		f, err := v.Float64()
		if err != nil || !validID(json.RawMessage(v)) {
			return jsonrpc.ID{}
		}
		if id, err := jsonrpc.MakeID(f); err == nil {
			return id
		}
	}
	return jsonrpc.ID{}
}

// Write implements mcp.Connection.
func (c *lineConnection) Write(_ context.Context, msg jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.transport.out.Write(append(b, '\n'))
	if resp, ok := msg.(*jsonrpc.Response); ok {
		c.owed.answered(resp.ID)
	}
	return err
}

// Close implements mcp.Connection.
func (c *lineConnection) Close() error {
	var err error
	c.closeOnce.Do(func() {
		close(c.closed)
		err = errors.Join(c.transport.in.Close(), c.transport.out.Close())
	})
	return err
}
