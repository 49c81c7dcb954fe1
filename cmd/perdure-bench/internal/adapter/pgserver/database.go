// Package pgserver makes and reads the PostgreSQL databases of the engines that are measured.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// connections is the size of an engine's pool.
const connections = 64

// Create makes the database of that name empty on the server, and drops one that is there: the name must be ours.
func Create(ctx context.Context, server, name string) (err error) {
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	id := pgx.Identifier{name}.Sanitize()
	for _, q := range []string{"drop database if exists " + id + " with (force)", "create database " + id} {
		if _, err := c.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// Address is the address of the database of that name on the server, with as many connections as Pool has.
func Address(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("the address of PostgreSQL: want postgres://user@host/database")
	}
	q := u.Query()
	q.Set("pool_max_conns", strconv.Itoa(connections))
	u.Path, u.RawQuery = "/"+name, q.Encode()
	return u.String(), nil
}

// Pool connects to the database of that name on the server.
func Pool(ctx context.Context, server, name string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(server)
	if err != nil {
		return nil, fmt.Errorf("the address of PostgreSQL: %w", err)
	}
	cfg.ConnConfig.Database, cfg.MaxConns = name, connections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL database %s: %w", name, err)
	}
	return pool, nil
}

// Count runs a query that counts, on connections of its own.
func Count(ctx context.Context, server, name, query string) (n int, err error) {
	pool, err := Pool(ctx, server, name)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := pool.QueryRow(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", query, err)
	}
	return n, nil
}

// Durability reads the server's settings, as an engine's own connections have them.
func Durability(ctx context.Context, pool *pgxpool.Pool) (peer.Durability, error) {
	var version, fsync, commit string
	err := pool.QueryRow(ctx, "select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')").Scan(&version, &fsync, &commit)
	if err != nil {
		return peer.Durability{}, fmt.Errorf("read PostgreSQL's settings: %w", err)
	}
	return peer.Durability{
		Full:   fsync == "on" && commit != "off",
		Detail: fmt.Sprintf("PostgreSQL %s, fsync=%s, synchronous_commit=%s", version, fsync, commit),
	}, nil
}
