package pgstore

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure/history"
)

// The codes of PostgreSQL that decide something here. A transaction that met one changed nothing, but for codeUnknown.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeUnique        = "23505"
	codeUnknown       = "40003" // whether it was committed
)

// repeatable reports whether the transaction is to be tried again: it lost to another, or found its key or its row of
// an index taken by one that it had not seen.
func repeatable(err error) bool {
	if isCode(err, codeSerialization, codeDeadlock) {
		return true
	}
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeUnique && e.ConstraintName == "perdure_keys_pkey"
}

// typed gives a violation of a constraint its meaning.
func typed(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	if e.ConstraintName == movedConstraint {
		return fmt.Errorf("a move has closed it: %w: %w", history.ErrMoved, err)
	}
	if e.Code != codeUnique {
		return err
	}
	switch e.ConstraintName {
	case "perdure_runs_pkey", "perdure_events_pkey": // of a run, its first event is written first
		return fmt.Errorf("run id: %w", history.ErrConflict)
	case "perdure_runs_task":
		return fmt.Errorf("task id: %w", history.ErrConflict)
	case "perdure_holds_pkey":
		return fmt.Errorf("hold id: %w", history.ErrConflict)
	}
	return err
}

// safe takes the connection string, which may hold a password, out of an error of connecting.
func safe(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("the connection string cannot be read: want postgres://user@host:port/database or key=value pairs")
	}
	return err
}

// lost reports whether the connection broke, or the call's context ended, so that nobody was told what became of the
// transaction. An error that PostgreSQL sent says that nothing was committed.
func lost(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		// the server shuts down, lost its client, or does not know itself
		return strings.HasPrefix(server.Code, "57") || strings.HasPrefix(server.Code, "08") || server.Code == codeUnknown
	}
	var broken interface{ Timeout() bool }
	return pgconn.Timeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broken)
}
