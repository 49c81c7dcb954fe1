package crashfile

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened opens a crash file; what it logs goes to the test.
func opened(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// crash forgets the file without closing it, as a process does that is killed, and opens it again.
func (f *File) crash(t *testing.T) *File {
	t.Helper()
	if err := f.file.Close(); err != nil {
		t.Fatal(err)
	}
	f.file = nil
	return opened(t, f.path)
}

func id(n int) history.RunID { return history.RunID{15: byte(n), 14: byte(n >> 8)} }

func TestStrikes(t *testing.T) {
	f := opened(t, filepath.Join(t.TempDir(), "crashes"))
	strikes := func(n int, seq uint64, want int) {
		t.Helper()
		if got := f.Strikes(id(n), seq); got != want {
			t.Errorf("run %d has %d strikes at event %d, want %d", n, got, seq, want)
		}
	}
	f.Begin(id(1), 1)
	f = f.crash(t)
	strikes(1, 1, 0) // nothing is written down before the first crash
	for n := range 4 {
		f.Begin(id(1), 1) // at every crash
		f.Begin(id(2), 5) // comes to its end
		f.End(id(2), true)
		f.Begin(id(3), uint64(n+1)) // gets on each time
		f.Begin(id(4), 9)           // is handed back
		f.End(id(4), false)
		f = f.crash(t)
	}
	strikes(1, 1, 4)
	strikes(1, 2, 0)
	strikes(2, 5, 0)
	strikes(3, 4, 1)
	strikes(4, 9, 0)
	// A suspect that rests keeps its strikes, through an orderly end too, which adds none.
	f.Begin(id(1), 1)
	f.End(id(1), false)
	f.Begin(id(3), 4)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = opened(t, f.path)
	strikes(1, 1, 4)
	strikes(3, 4, 1)
	// What survives is forgiven, and so is what gets on.
	f.Begin(id(1), 1)
	f.End(id(1), true)
	f.Begin(id(3), 5)
	f = f.crash(t)
	strikes(1, 1, 0)
	strikes(3, 4, 0)
	strikes(3, 5, 1)
}

func TestWatchEnds(t *testing.T) {
	f := opened(t, filepath.Join(t.TempDir(), "crashes"))
	f = f.crash(t)
	f.Begin(id(1), 1)
	f.until = time.Now()
	f.Begin(id(2), 1)
	f = f.crash(t)
	if a, b := f.Strikes(id(1), 1), f.Strikes(id(2), 1); a != 1 || b != 0 {
		t.Errorf("%d and %d strikes, want 1 of what began in the watch, and 0", a, b)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = opened(t, f.path)
	f.Begin(id(3), 1) // no crash before: nobody watches
	f.Begin(id(1), 1) // but a suspect is one for as long as it has strikes
	f = f.crash(t)
	if a, b := f.Strikes(id(1), 1), f.Strikes(id(3), 1); a != 2 || b != 0 {
		t.Errorf("%d and %d strikes, want 2 and 0", a, b)
	}
}

// Many begin and end at once: places are used again, and the file says who is left.
func TestManyAtOnce(t *testing.T) {
	f := opened(t, filepath.Join(t.TempDir(), "crashes")).crash(t)
	var g sync.WaitGroup
	for n := range 200 {
		g.Go(func() {
			for range 20 {
				f.Begin(id(n), 1)
				f.End(id(n), true)
			}
			if f.Begin(id(n), 1); n%2 == 0 {
				f.End(id(n), true)
			}
		})
	}
	g.Wait()
	if f.places > 200 {
		t.Errorf("%d places for 200 runs", f.places)
	}
	f = f.crash(t)
	for n := range 200 {
		if got := f.Strikes(id(n), 1); got != n%2 {
			t.Errorf("run %d has %d strikes, want %d", n, got, n%2)
		}
	}
}

func TestForeignContentIsDropped(t *testing.T) {
	good := (&entry{run: id(1), seq: 7, strikes: 2, executing: true}).line()
	other := (&entry{run: id(2), seq: 1, strikes: 9}).line()
	for name, c := range map[string]struct {
		content []byte
		strikes int // of run 1
		says    string
	}{
		"empty":            {nil, 0, ""},
		"another file":     {[]byte("SQLite format 3\x00"), 0, "begins anew"},
		"a short head":     {[]byte("perdure crashes v1 open"), 0, "begins anew"},
		"a later version":  {bytes.Join([][]byte{padded("perdure crashes v2 open"), good}, nil), 0, "begins anew"},
		"whole":            {bytes.Join([][]byte{padded(headOpen), other, padded(""), good}, nil), 3, ""},
		"shut":             {bytes.Join([][]byte{padded(headShut), good}, nil), 2, ""},
		"a line cut short": {bytes.Join([][]byte{padded(headOpen), good, other[:20]}, nil), 3, ""},
		"a bad line":       {bytes.Join([][]byte{padded(headOpen), padded("run 1 was fine"), good}, nil), 3, "is dropped"},
		"a run twice":      {bytes.Join([][]byte{padded(headOpen), good, good}, nil), 3, ""},
	} {
		path := filepath.Join(t.TempDir(), "crashes")
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		f, err := Open(path, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := f.Strikes(id(1), 7); got != c.strikes || !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 {
			t.Errorf("%s: %d strikes, want %d; it says %q", name, got, c.strikes, said.String())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that cannot be written is given up, once, and stops nobody.
func TestFileThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crashes")
	var said bytes.Buffer
	f, err := Open(path, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	f.until = time.Now().Add(time.Hour)
	if err := f.file.Close(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		f.Begin(id(n), 1)
		f.End(id(n), true)
	}
	if n := strings.Count(said.String(), "cannot be written"); n != 1 {
		t.Errorf("it says so %d times: %s", n, said.String())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("a folder is opened")
	}
}

// FuzzRead: whatever is in the file, it is opened, what it takes is what it writes, and it works.
func FuzzRead(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(padded(headOpen))
	f.Add(bytes.Join([][]byte{padded(headOpen), (&entry{run: id(1), seq: 7, strikes: 2, executing: true}).line(), padded("")}, nil))
	f.Add(fmt.Appendf(nil, "%s%s", padded(headShut), (&entry{run: id(3), strikes: maxStrikes}).line()))
	path := filepath.Join(f.TempDir(), "crashes")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(path, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		taken := file.runs
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		again := opened(t, path)
		if len(again.runs) != len(taken) {
			t.Errorf("%d runs were taken, %d are written", len(taken), len(again.runs))
		}
		for run, p := range taken {
			if got := again.runs[run]; got == nil || got.entry != p.entry {
				t.Errorf("run %s was taken as %+v and written as %+v", run, p, got)
			}
		}
	})
}
