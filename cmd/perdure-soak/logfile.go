package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// logFile takes what the servers write, and looks for lines that must not be there. It is safe for concurrent use.
type logFile struct {
	mu    sync.Mutex
	file  *os.File // guarded by mu
	part  []byte   // guarded by mu; a line that is not over
	last  []string // guarded by mu; the newest lines
	alarm []string // guarded by mu; lines that must not be there
}

func newLogFile(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{file: f}, nil
}

// alarms are texts of lines that say that something is broken.
var alarms = []string{"DATA RACE", "panic:", "fatal error:", "level=ERROR"}

const (
	keptLines  = 20
	keptAlarms = 50
	maxLine    = 64 << 10
)

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		line, rest, whole := bytes.Cut(l.part, []byte("\n"))
		if !whole {
			break
		}
		l.note(string(line))
		l.part = rest
	}
	if len(l.part) > maxLine {
		l.part = nil
	}
	return l.file.Write(p)
}

// note looks at a line. l.mu is held.
func (l *logFile) note(line string) {
	if l.last = append(l.last, line); len(l.last) > keptLines {
		l.last = l.last[1:]
	}
	for _, a := range alarms {
		if strings.Contains(line, a) && len(l.alarm) < keptAlarms {
			l.alarm = append(l.alarm, clip(line, 1000))
			return
		}
	}
}

// tail is the newest lines, for an error.
func (l *logFile) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}

func (l *logFile) alarmed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alarm
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
