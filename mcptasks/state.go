package mcptasks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// A requestState is what a client of revision 2026-07-28 that does not declare tasks carries from a call that asked
// questions to the repeated call with their answers:
//
//	perdure1.<task id>.<base64url of a MAC>
//
// The MAC is HMAC-SHA-256 under a key that lives in the store, over the task id, tenant, principal, tool and digest of
// the arguments, each preceded by its length. So a state is good for the same call of the same caller, also after a
// restart. It names a run and never starts one.
const statePrefix = "perdure1."

// stateSecret names the key in the store.
const stateSecret = "mcptasks/request-state"

func isRequestState(s string) bool { return strings.HasPrefix(s, statePrefix) }

func (s *Server) requestState(ctx context.Context, c Caller, tool string, input json.RawMessage, taskID string) (string, error) {
	mac, err := s.stateMAC(ctx, c, tool, input, taskID)
	if err != nil {
		return "", err
	}
	return statePrefix + taskID + "." + base64.RawURLEncoding.EncodeToString(mac), nil
}

func (s *Server) stateMAC(ctx context.Context, c Caller, tool string, input json.RawMessage, taskID string) ([]byte, error) {
	key, err := s.engine.Secret(ctx, stateSecret)
	if err != nil {
		return nil, fmt.Errorf("key of request states: %w", err)
	}
	digest := history.Sum(input)
	h := hmac.New(sha256.New, key)
	for _, part := range []string{statePrefix, taskID, c.Tenant, c.Principal, tool, string(digest[:])} {
		writePart(h, part)
	}
	return h.Sum(nil), nil
}

func writePart(h hash.Hash, part string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	h.Write([]byte(part))
}

var errState = errors.New("request state")

// stateTask checks a state and returns the task that it names.
func (s *Server) stateTask(ctx context.Context, c Caller, tool string, input json.RawMessage, state string) (string, error) {
	id, sum, ok := strings.Cut(strings.TrimPrefix(state, statePrefix), ".")
	mac, err := base64.RawURLEncoding.DecodeString(sum)
	if !ok || err != nil {
		return "", errState
	}
	want, err := s.stateMAC(ctx, c, tool, input, id)
	if err != nil {
		return "", err
	}
	if !hmac.Equal(mac, want) {
		return "", errState
	}
	return id, nil
}

// inputRequired answers a call with the run's open questions and the state to call again with.
func (s *Server) inputRequired(ctx context.Context, w *waiting, open []history.Interrupt) (*mcp.CallToolResult, error) {
	wire := map[string]InputRequest{}
	for i := range open {
		r, err := inputRequest(&open[i])
		if err != nil {
			return nil, err
		}
		wire[open[i].Key] = r
	}
	b, err := json.Marshal(wire)
	if err != nil {
		return nil, err
	}
	var requests mcp.InputRequestMap
	if err := json.Unmarshal(b, &requests); err != nil {
		return nil, fmt.Errorf("questions of run %s: %w", w.run.ID, err)
	}
	state, err := s.requestState(ctx, w.caller, w.req.Params.Name, w.args, w.run.TaskID)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}, nil
}

// continueCall goes on with the run of an earlier call: it gives the answers, and waits again. Answers to questions
// that are no longer open are ignored, so a state that was used before gives the run's present state.
func (s *Server) continueCall(ctx context.Context, c *call, route *boundRoute, req *mcp.CallToolRequest, args json.RawMessage) (*mcp.CallToolResult, error) {
	id, err := s.stateTask(ctx, c.caller, req.Params.Name, args, req.Params.RequestState)
	if errors.Is(err, errState) {
		return nil, invalidParams("requestState does not belong to this call: repeat the call that it came from, with the same arguments")
	}
	if err != nil {
		return nil, s.protocolError(ctx, methodCallTool, err)
	}
	run, err := s.taskByID(ctx, c.caller, id)
	if isTaskNotFound(err) {
		return nil, invalidParams("requestState has expired: its work has ended and was deleted")
	}
	if err != nil {
		return nil, s.protocolError(ctx, methodCallTool, err)
	}
	responses := map[string]json.RawMessage{}
	for key, r := range req.Params.InputResponses {
		if responses[key], err = json.Marshal(r); err != nil {
			return nil, invalidParams("inputResponses[%q] could not be read", key)
		}
	}
	if err := s.answer(ctx, &run, c.accepts, responses); err != nil {
		return nil, s.protocolError(ctx, methodCallTool, err)
	}
	if bound := s.routes.of(&run); bound != nil {
		route = bound // the version that the run was started on
	}
	return s.answerWithin(ctx, c, route, req, run, args)
}
