package simtest

import (
	"errors"
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure/history"
)

// input is one call of a client on one run.
type input struct {
	Op  string // start, signal, answer, cancel, terminate, claim, release, step, ask, finish
	Run int
	// ID and Payload are a signal's or a start's; Payload is 1 or 2.
	ID, Payload int
	// Token, After and Seen are what a holder commits under; After is also the sequence that names an answered question.
	Token history.Token
	After uint64
	Seen  uint64
	// Ending says of a claim that it may pass the run over: see excuse.
	Ending bool
}

// output is what the client was told; "?" where it does not know whether the call took effect.
type output struct {
	Said  string
	Token history.Token
}

const notKnown = "?"

// maxAsked bounds the questions of a run in the model, by the sequence of their events.
const maxAsked = 16

// state is one run as the sequential model has it: what a store may be taken for, if calls came one after the other.
type state struct {
	There   bool
	Input   int
	Status  history.Status
	Held    bool
	Claimed bool
	Token   history.Token // the newest
	Seq     uint64
	Head    uint64 // newest inbox item
	Seen    uint64
	Cancel  bool
	Signals [3]int          // payloads, by id
	Asked   [maxAsked]uint8 // 1: open, 2: closed; by sequence
}

// step applies a call: what the store must say, and the state after it.
func (s state) step(in input) (string, state) {
	over := s.Status.Terminal()
	if !s.There && in.Op != "start" {
		if in.Op == "claim" {
			return "none", s
		}
		return "not found", s
	}
	switch in.Op {
	case "start":
		switch {
		case !s.There:
			s.There, s.Input, s.Status, s.Seq = true, in.Payload, history.StatusReady, 1
			return "new", s
		case s.Input != in.Payload:
			return "conflict", s
		}
		return "existed", s
	case "signal":
		switch had := s.Signals[in.ID]; {
		case had == in.Payload:
			return "duplicate", s
		case had != 0:
			return "conflict", s
		}
		s.Signals[in.ID] = in.Payload
		if over {
			return "dead letter", s
		}
		return "delivered", s.accept()
	case "answer":
		switch s.Asked[in.After%maxAsked] {
		case 0:
			return "not found", s
		case 2:
			return "answered", s
		}
		if over {
			return "answered", s
		}
		s.Asked[in.After%maxAsked] = 2
		return "ok", s.accept()
	case "cancel":
		switch {
		case over:
			return s.Status.String(), s
		case !s.Claimed:
			s.Status = history.StatusCanceled
			s.Seq++
			return s.Status.String(), s
		case !s.Cancel:
			s.Cancel = true
			s = s.accept()
		}
		return "requested", s
	case "terminate":
		if !over {
			s.Status, s.Held = history.StatusFailed, false
			s.Seq++
		}
		return s.Status.String(), s
	case "claim":
		if s.Status != history.StatusReady || s.Held {
			return "none", s
		}
		s.Held, s.Claimed = true, true
		return "claimed", s
	case "release":
		if !s.Held || s.Token != in.Token {
			return "fenced", s
		}
		s.Held = false
		return "ok", s
	}
	return s.commit(in)
}

func (s state) accept() state {
	s.Head++
	if s.Status == history.StatusWaiting {
		s.Status = history.StatusReady
	}
	return s
}

func (s state) commit(in input) (string, state) {
	switch {
	case !s.Held || s.Token != in.Token:
		return "fenced", s
	case in.After != s.Seq:
		return "sequence", s
	}
	s.Seq++
	s.Seen = max(s.Seen, in.Seen)
	switch in.Op {
	case "ask":
		s.Asked[s.Seq%maxAsked] = 1
		s.Held, s.Status = false, history.StatusWaiting
		if s.Head > s.Seen {
			s.Status = history.StatusReady
		}
	case "finish":
		s.Held, s.Status = false, history.StatusCompleted
	}
	return "ok", s
}

// linear is the model for porcupine: each run is a partition of its own.
func linear() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			for _, op := range all {
				run := op.Input.(input).Run
				for len(parts) <= run {
					parts = append(parts, nil)
				}
				parts[run] = append(parts[run], op)
			}
			return parts
		},
		Step: func(before, in, out any) []any {
			s, i, o := before.(state), in.(input), out.(output)
			said, after := s.step(i)
			switch {
			case o.Said == notKnown && after == s:
				return []any{s}
			case o.Said == notKnown:
				return []any{s, after}
			case i.Ending && o.Said == "none":
				return []any{s}
			case o.Said != said:
				return nil
			}
			if said == "claimed" {
				if o.Token.Compare(s.Token) <= 0 {
					return nil // tokens grow
				}
				after.Token = o.Token
			}
			return []any{after}
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
	return m.ToModel()
}

// excuse marks the claims that found nothing and may have passed a ready run over, as engine.Leases allows: those during a
// cancel or a terminate of the run, and those during a claim that such a call overtook, which had the run for a moment.
func excuse(ops []porcupine.Operation) {
	during := func(claim int, what func(other *porcupine.Operation) bool) bool {
		for i := range ops {
			o, c := &ops[i], &ops[claim]
			if i != claim && o.Input.(input).Run == c.Input.(input).Run && o.Call <= c.Return && c.Call <= o.Return && what(o) {
				return true
			}
		}
		return false
	}
	none := func(o *porcupine.Operation) bool {
		return o.Input.(input).Op == "claim" && o.Output.(output).Said == "none"
	}
	mark := func(what func(other *porcupine.Operation) bool) {
		var found []int
		for i := range ops {
			if none(&ops[i]) && during(i, what) {
				found = append(found, i)
			}
		}
		for _, i := range found {
			in := ops[i].Input.(input)
			in.Ending = true
			ops[i].Input = in
		}
	}
	mark(func(o *porcupine.Operation) bool {
		op := o.Input.(input).Op
		return op == "cancel" || op == "terminate"
	})
	mark(func(o *porcupine.Operation) bool { return o.Input.(input).Ending })
}

// said puts an answer of a store into the model's words.
func said(ok string, err error) string {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, history.ErrFenced):
		return "fenced"
	case errors.Is(err, history.ErrSequence):
		return "sequence"
	case errors.Is(err, history.ErrConflict):
		return "conflict"
	case errors.Is(err, history.ErrAnswered):
		return "answered"
	case errors.Is(err, history.ErrNotFound):
		return "not found"
	}
	return err.Error()
}
