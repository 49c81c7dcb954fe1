package admin

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure/history"
)

// Server says what runs behind a socket.
type Server struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Config  string    `json:"config"`
	State   string    `json:"state"`
	Started time.Time `json:"started"`
	// Mode is how it was started: http, stdio or socket.
	Mode string `json:"mode"`
	// MCP is the address of the MCP endpoint; empty where no TCP port is served.
	MCP string `json:"mcp,omitempty"`
	// Loads counts how often the tools were loaded, LoadError says why the newest attempt was refused.
	Loads     int    `json:"loads"`
	LoadError string `json:"loadError,omitempty"`
	Tools     []Tool `json:"tools"`
	// Goroutines is how many there are now: a number that grows for hours while the work does not is a leak.
	Goroutines int `json:"goroutines"`
}

// Tool is a tool as it is offered now.
type Tool struct {
	Name        string `json:"name"`
	Version     int    `json:"version"`
	Digest      string `json:"digest"`
	Description string `json:"description,omitempty"`
}

// Run is a run in a list.
type Run struct {
	ID     string `json:"id"`
	Key    string `json:"key,omitempty"` // the caller's own id; empty where none was given
	Tenant string `json:"tenant,omitempty"`
	// Principal is who started the run; empty without authentication.
	Principal string            `json:"principal,omitempty"`
	Workflow  string            `json:"workflow"`
	Version   int               `json:"version"`
	Tool      string            `json:"tool,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`

	Status history.Status `json:"status"`
	// Reason says why the run is blocked, paused or stalled, or that nobody here has its code.
	Reason          string           `json:"reason,omitempty"`
	Message         string           `json:"message,omitempty"`
	Questions       int              `json:"questions,omitempty"`
	Events          uint64           `json:"events"`
	Created         time.Time        `json:"created"`
	Updated         time.Time        `json:"updated"`
	Closed          time.Time        `json:"closed,omitzero"`
	Deadline        time.Time        `json:"deadline,omitzero"`
	CancelRequested time.Time        `json:"cancelRequested,omitzero"`
	Failure         *history.Failure `json:"failure,omitempty"`
	// Origin is the run that this one was retried or forked from, and OriginSeq the newest event that a fork kept.
	Origin    string `json:"origin,omitempty"`
	OriginSeq uint64 `json:"originSeq,omitempty"`
	// No more than ConcurrencyLimit runs with the same ConcurrencyKey are executed at once.
	ConcurrencyKey   string `json:"concurrencyKey,omitempty"`
	ConcurrencyLimit int    `json:"concurrencyLimit,omitempty"`
}

// RunPage is a part of the list of runs.
type RunPage struct {
	Runs []Run `json:"runs"`
	// Next is the cursor of the next page; empty where this is the last.
	Next string `json:"next,omitempty"`
}

// Detail is a run with all that is known of it.
type Detail struct {
	Run
	Input json.RawMessage `json:"input,omitempty"`
	// Result is there once the run has completed.
	Result      json.RawMessage `json:"result,omitempty"`
	Open        []Question      `json:"openQuestions,omitempty"`
	Timers      []Timer         `json:"timers,omitempty"`
	Unreceived  []Signal        `json:"unreceived,omitempty"` // signals that are kept until the run receives them
	DeadLetters []Signal        `json:"deadLetters,omitempty"`
	Timeline    []Event         `json:"timeline"`
}

// Event is one event of a run's history. See history.Event for the fields.
type Event struct {
	Seq  uint64    `json:"seq"`
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
	// Epoch is the process that wrote the event: one opening of the store. It is 0 where no worker did.
	Epoch      uint64           `json:"epoch,omitempty"`
	Generation uint32           `json:"generation,omitempty"`
	Position   history.Position `json:"position,omitempty"`
	Op         string           `json:"op,omitempty"`
	Name       string           `json:"name,omitempty"`
	Names      []string         `json:"names,omitempty"`
	Attempt    uint32           `json:"attempt,omitempty"`
	Due        time.Time        `json:"due,omitzero"`
	Key        string           `json:"key,omitempty"`
	Version    int              `json:"version,omitempty"`
	Message    string           `json:"message,omitempty"`
	By         string           `json:"by,omitempty"`
	Failure    *history.Failure `json:"failure,omitempty"`
	Payload    json.RawMessage  `json:"payload,omitempty"`
	Erased     bool             `json:"payloadErased,omitempty"`
	// Sealed says that the server cannot decode the payload, or a text: it has not the key.
	Sealed *history.Sealed `json:"sealed,omitempty"`
}

// Kind is history.Kind, written as its name.
type Kind history.Kind

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(history.Kind(k).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. A name that is not known becomes kind 0: a newer server's.
func (k *Kind) UnmarshalText(b []byte) error {
	*k = 0
	for n := history.Kind(1); n < 255; n++ {
		if n.Known() && n.String() == string(b) {
			*k = Kind(n)
			return nil
		}
	}
	return nil
}

// Question is an open question. Content of its answer fits Schema; an approval is a decision on Proposal.
type Question struct {
	Run      string           `json:"run"`
	Key      string           `json:"key"`
	Workflow string           `json:"workflow"`
	Tool     string           `json:"tool,omitempty"`
	Position history.Position `json:"position"`
	// Method is question, or a client method of MCP; then Body has its parameters.
	Method       string          `json:"method"`
	Message      string          `json:"message,omitempty"`
	Approval     bool            `json:"approval,omitempty"`
	Proposal     json.RawMessage `json:"proposal,omitempty"`
	Schema       json.RawMessage `json:"schema,omitempty"`
	Body         json.RawMessage `json:"body,omitempty"`
	Opened       time.Time       `json:"opened"`
	Deadline     time.Time       `json:"deadline,omitzero"`
	OperatorOnly bool            `json:"operatorOnly,omitempty"`
	Sealed       *history.Sealed `json:"sealed,omitempty"`
}

// Timer wakes a run.
type Timer struct {
	At       time.Time        `json:"at"`
	Position history.Position `json:"position"`
}

// Signal is a signal that no receive took.
type Signal struct {
	// Seq is its number in the run's inbox.
	Seq      uint64          `json:"seq"`
	Name     string          `json:"name"`
	ID       string          `json:"id,omitempty"`
	Accepted time.Time       `json:"accepted"`
	By       string          `json:"by,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Erased   bool            `json:"payloadErased,omitempty"`
	Sealed   *history.Sealed `json:"sealed,omitempty"`
}

// SignalRequest is a signal to send.
type SignalRequest struct {
	Name    string          `json:"name"`
	ID      string          `json:"id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// SignalResult says what became of a signal: delivered, duplicate or dead letter.
type SignalResult struct {
	Run      string `json:"run"`
	Delivery string `json:"delivery"`
	// Awaits are the signals that the run waited for just after the delivery.
	Awaits []string `json:"awaits,omitempty"`
}

// AnswerRequest answers a question: Action is accept, decline or dismiss.
type AnswerRequest struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
	Reason  string          `json:"reason,omitempty"`
}

// EndRequest cancels or terminates a run.
type EndRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Report is what the checker found.
type Report struct {
	Violations []Violation `json:"violations"`
}

// Violation is something that must not be.
type Violation struct {
	Run    string `json:"run,omitempty"`
	Rule   string `json:"rule"`
	Detail string `json:"detail"`
}

// Problem is the body of an answer that is an error.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	// Code is the exit code of the command that asked.
	Code int `json:"code"`
}

// String is the kind's name.
func (k Kind) String() string { return history.Kind(k).String() }
