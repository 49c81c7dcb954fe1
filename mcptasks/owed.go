package mcptasks

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// owed counts the requests of a connection that its client waits for. A subscription is none: it ends with the connection.
type owed struct {
	mu   sync.Mutex
	open map[jsonrpc.ID]struct{} // guarded by mu
	none chan struct{}           // guarded by mu; closed while open is empty
}

func newOwed() *owed {
	o := &owed{open: map[jsonrpc.ID]struct{}{}, none: make(chan struct{})}
	close(o.none)
	return o
}

// read counts a request in. One that the client takes back it no longer waits for.
func (o *owed) read(req *jsonrpc.Request) {
	if !req.IsCall() {
		if req.Method == notificationCancelled {
			o.answered(cancelledID(req.Params))
		}
		return
	}
	if req.Method == methodListen {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) == 0 {
		o.none = make(chan struct{})
	}
	o.open[req.ID] = struct{}{}
}

// cancelledID is the request that a notifications/cancelled names; invalid where it names none.
func cancelledID(params json.RawMessage) jsonrpc.ID {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return jsonrpc.ID{}
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}

// answered counts a request out.
func (o *owed) answered(id jsonrpc.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.open[id]; !ok {
		return
	}
	if delete(o.open, id); len(o.open) == 0 {
		close(o.none)
	}
}

// settled returns a channel that is closed once nothing is open. It is meant for when no more requests come.
func (o *owed) settled() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.none
}
