package main

// reloadSignal returns a channel that never gets a value: there is no SIGHUP here. The file is watched, and
// perdure reload works.
func reloadSignal() (reload <-chan struct{}, stop func()) { return nil, func() {} }
