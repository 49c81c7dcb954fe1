//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// reloadSignal returns a channel that gets a value at SIGHUP.
func reloadSignal() (reload <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	out, done := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case out <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(done) }
}
