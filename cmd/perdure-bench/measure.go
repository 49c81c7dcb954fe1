package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/workload"
)

// measure is the measuring process: one workload on one engine, and out.
func measure(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec workload.Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read what to measure: %w", err)
	}
	p, err := findPeer(spec.Peer)
	if err != nil {
		return err
	}
	if !p.postgres {
		spec.Postgres = ""
	}
	result, err := workload.Run(ctx, spec, p.open())
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if spec.Workload == workload.W6Crash && !result.Unsupported {
		// We are to be killed; the end of the input means that nobody is there to do it.
		if _, err := io.Copy(io.Discard, in); err != nil {
			return fmt.Errorf("wait to be killed: %w", err)
		}
	}
	return nil
}
