// Package sitting measures several engines in turns, so that all see the same machine at the same time.
//
// The types:
//
//   - [Cell] is a workload at one size; [Plan] lists them, with the goals of this engine.
//   - [Sitting] runs each cell in each round on each peer, every time in a process of its own.
//   - [Record] is everything that came of it.
//
// Before each cell the disk is probed: figures of runs mean something only beside the cost of a sync in the same minute.
// The peers take turns in going first.
package sitting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/workload"
)

// Sitting is a set of measurements to make.
type Sitting struct {
	Cells []Cell
	// Peers are the names of the engines, this project's first.
	Peers  []string
	Rounds int
	// Dir is where the engines keep their files, each in a directory that is removed afterwards.
	Dir      string
	Postgres string
	// Profiles, where it is set, is a directory for the profiles of each process.
	Profiles string
	// Progress is told of each measurement.
	Progress io.Writer
}

// Record is what a sitting found.
type Record struct {
	Began      time.Time    `json:"began"`
	Ended      time.Time    `json:"ended"`
	Machine    proc.Machine `json:"machine"`
	LoadBefore string       `json:"load_before"`
	LoadAfter  string       `json:"load_after"`
	Rounds     int          `json:"rounds"`
	// Versions are of the peers' modules.
	Versions map[string]string `json:"versions"`
	Cells    []CellRecord      `json:"cells"`
}

// CellRecord is what came of one cell in all rounds.
type CellRecord struct {
	Cell    Cell               `json:"-"`
	Title   string             `json:"title"`
	Probes  []Probe            `json:"probes"`
	Results []*workload.Result `json:"results"`
	// Failures are the measurements that gave none.
	Failures []string `json:"failures,omitempty"`
}

// Run makes the measurements. A measurement that fails is kept in the record and does not end the sitting.
func (s *Sitting) Run(ctx context.Context) (*Record, error) {
	rec := &Record{Began: time.Now(), Machine: proc.ThisMachine(), LoadBefore: proc.Load(), Rounds: s.Rounds}
	for i := range s.Cells {
		rec.Cells = append(rec.Cells, CellRecord{Cell: s.Cells[i], Title: s.Cells[i].Title()})
	}
	for round := range s.Rounds {
		for i := range rec.Cells {
			if err := s.runCell(ctx, round, &rec.Cells[i]); err != nil {
				return nil, err
			}
		}
	}
	rec.Ended, rec.LoadAfter = time.Now(), proc.Load()
	return rec, nil
}

func (s *Sitting) runCell(ctx context.Context, round int, rec *CellRecord) error {
	probe, err := ProbeDisk(s.Dir)
	if err != nil {
		return err
	}
	rec.Probes = append(rec.Probes, probe)
	for i := range s.Peers {
		name := s.Peers[(i+round)%len(s.Peers)]
		began := time.Now()
		result, err := s.measure(ctx, round, rec.Cell, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		outcome := "done"
		switch {
		case err != nil:
			outcome = err.Error()
			rec.Failures = append(rec.Failures, fmt.Sprintf("round %d, %s: %v", round+1, name, err))
		case result.Unsupported:
			outcome = "has no such thing"
		}
		if result != nil {
			rec.Results = append(rec.Results, result)
		}
		if _, err := fmt.Fprintf(s.Progress, "round %d of %d  %-22s %-14s %5.1f s  %s\n", round+1, s.Rounds, rec.Title, name, time.Since(began).Seconds(), outcome); err != nil {
			return fmt.Errorf("progress: %w", err)
		}
	}
	return nil
}

// Failed joins the failures of all cells.
func (r *Record) Failed() error {
	var errs []error
	for i := range r.Cells {
		for _, f := range r.Cells[i].Failures {
			errs = append(errs, fmt.Errorf("%s, %s", r.Cells[i].Title, f))
		}
	}
	return errors.Join(errs...)
}
