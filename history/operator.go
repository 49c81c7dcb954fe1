package history

// The verbs (the Name of an OperatorActed event) of what is done to a run from outside, without its code: a store writes
// these events itself, and no holder does. Other names are those of decisions that a run's code took note of.
const (
	// VerbPause and VerbResume stop a run and let it go on.
	VerbPause  = "pause"
	VerbResume = "resume"
	// VerbRetry and VerbFork are the newest event that a new run adopts: Key is the run that it comes from.
	VerbRetry = "retry run"
	VerbFork  = "fork run"
	// VerbEdit says that the adopted result of the step at Key was replaced, by the payload.
	VerbEdit = "edit result"
)

// fromOutside reports whether the verb is a store's.
func fromOutside(verb string) bool {
	switch verb {
	case VerbPause, VerbResume, VerbRetry, VerbFork, VerbEdit:
		return true
	}
	return false
}

// Paused returns the event that stops a run.
func Paused(s *State, now Time, by, reason string) Event { return acted(s, now, VerbPause, by, reason) }

// Resumed returns the event that lets a paused run go on.
func Resumed(s *State, now Time, by, reason string) Event {
	return acted(s, now, VerbResume, by, reason)
}

func acted(s *State, now Time, verb, by, reason string) Event {
	return Event{
		Seq: s.Seq + 1, Kind: OperatorActed, At: now, Generation: s.Generation, Name: verb, By: by, Message: reason,
	}
}

// operated adds what was done from outside to the projection.
func (s *State) operated(e *Event) {
	switch e.Name {
	case VerbPause:
		s.Status, s.Reason = StatusPaused, pauseReason(e)
		s.Touch(e.At)
	case VerbResume:
		s.Status, s.Reason = StatusReady, ""
		s.Touch(e.At)
	}
}

func pauseReason(e *Event) string {
	text := "paused"
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}
