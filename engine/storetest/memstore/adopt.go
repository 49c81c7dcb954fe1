package memstore

import "github.com/perdure/perdure/history"

// adopt adds the rows of what adopted events leave open.
func (w *write) adopt(r *run, start *history.Start) error {
	if len(start.Adopt) == 0 {
		return nil
	}
	rows := start.Rows()
	for _, t := range rows.Timers {
		r.timers[t] = true
		if at := w.timers[r.spec.ID]; at == 0 || t.At < at {
			w.timers[r.spec.ID] = t.At
		}
	}
	r.open = rows.Open
	for _, q := range rows.Open {
		r.asked[q.Key] = true
	}
	for _, key := range rows.Asked {
		r.asked[key] = true
	}
	r.state.Questions = len(rows.Open)
	r.state.Touch(w.at)
	for _, s := range rows.Signals {
		w.remember(r, identity{s.Kind, s.Key}, history.SignalDigest(&s))
	}
	for _, f := range start.Facts {
		if _, err := w.deliver(r, f); err != nil {
			return err
		}
	}
	for _, c := range start.Children {
		if _, _, err := w.start(c); err != nil {
			return err
		}
	}
	return nil
}
