package history

// ExportFormat is the version of Export's JSON form.
const ExportFormat = 1

// Export is a run with its whole history: one JSON document, for people and for testing new code against old runs.
type Export struct {
	Format int     `json:"format"`
	Run    Run     `json:"run"`
	Events []Event `json:"events"`
}

// Generations splits the history. Each part begins with the event that carries the generation's input; the event that
// ends a generation is the first of the next, and is in both. A run whose closed generations were pruned begins with such an event.
func (x *Export) Generations() [][]Event {
	var parts [][]Event
	from := 0
	for i := range x.Events {
		if i > 0 && x.Events[i].Kind == RunContinued {
			parts = append(parts, x.Events[from:i+1])
			from = i
		}
	}
	return append(parts, x.Events[from:])
}
