package faultfs

import (
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Effect is what becomes of a write that a fault hits.
type Effect uint8

const (
	// Refuse does nothing and answers with the fault's error.
	Refuse Effect = iota
	// Short writes the first half only and says so.
	Short
	// Lose writes nothing and says that it did.
	Lose
	// Misdirect writes everything to the page after, and says that all is well.
	Misdirect
	// Slow does what was asked, after the fault's delay.
	Slow
)

// Fault goes wrong once the requests that it names come by.
type Fault struct {
	Kind Kind
	// Name limits it to files whose name ends so; "" means all.
	Name string
	// At limits a Read or Write to those that touch this offset; negative means any. NoOffset is that.
	At int64
	// Skip is how many such requests go well first, Times how many then fail; -1 means all, 0 one.
	Skip, Times int
	Effect      Effect
	Err         syscall.Errno
	Delay       time.Duration
}

// NoOffset is Fault.At for any offset.
const NoOffset = -1

// Armed is a fault that was injected.
type Armed struct {
	fault Fault
	seen  int // guarded by the disk's mu
	hits  atomic.Int64
}

// Hits returns how many requests it has hit.
func (a *Armed) Hits() int { return int(a.hits.Load()) }

// matches reports whether the request is one that fails, and counts it.
func (a *Armed) matches(kind Kind, name string, off int64, n int) bool {
	f := &a.fault
	if f.Kind != kind || !strings.HasSuffix(name, f.Name) {
		return false
	}
	if (kind == Read || kind == Write) && f.At >= 0 && (f.At < off || f.At >= off+int64(n)) {
		return false
	}
	a.seen++
	if a.seen <= f.Skip || f.Times >= 0 && a.seen > f.Skip+max(f.Times, 1) {
		return false
	}
	a.hits.Add(1)
	return true
}
