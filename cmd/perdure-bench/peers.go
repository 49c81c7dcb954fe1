package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/dbos"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/goworkflows"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/perdure"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/river"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/sqlitefile"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// peerEntry is an engine that can be measured.
type peerEntry struct {
	name   string
	about  string
	module string // for its version
	// postgres says that it needs a server, extra that it runs only when it is named.
	postgres, extra bool
	open            func() peer.Engine
}

// This project's engine, on a file and on PostgreSQL. The one that is measured first is compared with the others.
const (
	ours         = "perdure"
	oursPostgres = "perdure-postgres"
)

func peers() []peerEntry {
	const (
		gw   = "github.com/cschleiden/go-workflows"
		db   = "github.com/dbos-inc/dbos-transact-golang"
		rv   = "github.com/riverqueue/river"
		self = "github.com/perdure/perdure"
	)
	return []peerEntry{
		{name: ours, about: "this engine on boltstore", module: self, open: perdure.New},
		{name: oursPostgres, about: "this engine on pgstore, in place of " + ours, module: self, postgres: true, extra: true, open: perdure.NewPostgres},
		{name: "go-workflows", about: "go-workflows on SQLite", module: gw, open: goworkflows.New},
		{name: "dbos", about: "DBOS on SQLite at its most durable", module: db, open: func() peer.Engine { return dbos.NewSQLite(sqlitefile.Full) }},
		{name: "dbos-normal", about: "DBOS on SQLite as it is by default", module: db, extra: true, open: func() peer.Engine { return dbos.NewSQLite(sqlitefile.Normal) }},
		{name: "dbos-postgres", about: "DBOS on PostgreSQL", module: db, postgres: true, open: dbos.NewPostgres},
		{name: "river", about: "River (jobs only) on SQLite", module: rv, open: river.NewSQLite},
		{name: "river-postgres", about: "River (jobs only) on PostgreSQL", module: rv, postgres: true, open: river.NewPostgres},
	}
}

func findPeer(name string) (peerEntry, error) {
	var names []string
	for _, p := range peers() {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return peerEntry{}, fmt.Errorf("there is no peer %q: there are %s", name, strings.Join(names, ", "))
}

// choosePeers returns the named peers, or the default ones, this engine always first: without it nothing is compared.
func choosePeers(names []string, postgres bool) ([]peerEntry, error) {
	first, err := findPeer(ours)
	if slices.Contains(names, oursPostgres) {
		first, err = findPeer(oursPostgres)
	}
	if err != nil {
		return nil, err
	}
	chosen := []peerEntry{first}
	if len(names) == 0 {
		for _, p := range peers()[1:] {
			if !p.extra && (postgres || !p.postgres) {
				chosen = append(chosen, p)
			}
		}
		return chosen, nil
	}
	for _, n := range names {
		p, err := findPeer(n)
		switch {
		case err != nil:
			return nil, err
		case p.postgres && !postgres:
			return nil, fmt.Errorf("peer %q needs a server: name one with -postgres", n)
		case p.name != first.name:
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// version is the version of the peer's module that is linked in, "" for this project.
func (p *peerEntry) version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == p.module && m.Replace == nil {
			return m.Version
		}
	}
	return ""
}
