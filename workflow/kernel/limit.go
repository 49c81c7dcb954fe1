package kernel

import "fmt"

func limitText(events, bytes int, o Options) string {
	return fmt.Sprintf("the history has %d of at most %d events and about %d of at most %d bytes; continue as new before the limit",
		events, o.MaxEvents, bytes, o.MaxBytes)
}
