package kernel

import "github.com/perdure/perdure/history"

// Replay holds the code against an exported history, generation by generation, and returns a *Divergence where they
// differ. No step is run.
func Replay(export *history.Export, fn Func, opts Options) error {
	for _, events := range export.Generations() {
		run := history.Run{Spec: export.Run.Spec}
		run.Seq = events[len(events)-1].Seq
		run.Generation = events[len(events)-1].Generation
		x := New(&run, events, fn, opts)
		a := x.Advance(Input{Now: events[len(events)-1].At})
		x.Unload()
		if a.Diverged != nil {
			return a.Diverged
		}
	}
	return nil
}
