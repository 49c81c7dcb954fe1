package serve

import (
	"context"
	"os"
	"time"
)

// watchEvery is how often the file is looked at. A look is one stat: unlike a subscription to the file system it works
// on every kind of mount, and follows a file that an editor replaces.
const watchEvery = 500 * time.Millisecond

// watch reloads the tools when the file has changed, or when it is asked to.
func (t *tools) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := stamp(t.server.opts.Config)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.server.opts.Reload:
			last = stamp(t.server.opts.Config)
		case <-tick.C:
			now := stamp(t.server.opts.Config)
			if now == last || now == (fileStamp{}) {
				continue
			}
			if last = now; !t.changed() {
				continue
			}
		}
		_ = t.reload(ctx) // it has logged, and remembers, what is wrong
	}
}

// fileStamp changes whenever a file does; the zero value is no file.
type fileStamp struct {
	modified time.Time
	size     int64
}

func stamp(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}
