// Package commitpath compares boltstore's commits with those of a bare bbolt loop that writes the same keys and values.
//
// The bare loop is the least that group commit on bbolt can be: writers queue their rows, one goroutine puts all that
// gathered while the last transaction was syncing, and tells them. What boltstore does beyond it (leases, fencing,
// sequence and digest checks, records, windows, notifications) is the difference. The benchmark is in the tests:
//
//	go -C cmd/perdure-bench test -run '^$' -bench CommitPath -benchtime 20x ./internal/commitpath
package commitpath
