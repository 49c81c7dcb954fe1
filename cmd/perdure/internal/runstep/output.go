package runstep

import (
	"os"
	"os/exec"
	"strings"
	"time"
)

// pipes carry the program's input and output. The parent's copies of the child's ends are closed once it has started.
type pipes struct {
	child      []*os.File // the child's ends
	stdinWrite *os.File
	stdin      string
	outRead    *os.File
	errRead    *os.File
	out        *output
	err        *output
	readers    chan struct{} // receives one value for each reader that ended
}

func openPipes(cmd *exec.Cmd, spec Spec, scrub Scrubber) (*pipes, error) {
	limit := spec.MaxOutput
	if limit == 0 {
		limit = defaultOutput
	}
	p := &pipes{
		stdin: spec.Stdin, readers: make(chan struct{}, 2),
		out: &output{limit: limit, scrub: scrub}, err: &output{limit: limit, scrub: scrub, tail: true},
	}
	var outWrite, errWrite *os.File
	var err error
	if p.outRead, outWrite, err = os.Pipe(); err != nil {
		return nil, err
	}
	p.child = append(p.child, outWrite)
	if p.errRead, errWrite, err = os.Pipe(); err != nil {
		p.close()
		return nil, err
	}
	p.child = append(p.child, errWrite)
	cmd.Stdout, cmd.Stderr = outWrite, errWrite
	if spec.Stdin != "" {
		stdinRead, stdinWrite, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		p.stdinWrite, p.child = stdinWrite, append(p.child, stdinRead)
		cmd.Stdin = stdinRead
	}
	return p, nil
}

// begin moves data. It is called once, after the child has its ends.
func (p *pipes) begin() {
	p.closeChild()
	for _, side := range []struct {
		from *os.File
		to   *output
	}{{p.outRead, p.out}, {p.errRead, p.err}} {
		go func() {
			side.to.readFrom(side.from)
			p.readers <- struct{}{}
		}()
	}
	if p.stdinWrite != nil {
		go func() {
			// A program may end without reading its input: that is no error. close interrupts a blocked write.
			_, _ = p.stdinWrite.WriteString(p.stdin)
			_ = p.stdinWrite.Close()
		}()
	}
}

// result collects what was read. The child is dead; its pipes end, unless something outside its group holds them.
func (p *pipes) result(exitCode int) Result {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for left := 2; left > 0; {
		select {
		case <-p.readers:
			left--
		case <-timer.C:
			now := time.Unix(1, 0)
			if p.outRead.SetReadDeadline(now) != nil || p.errRead.SetReadDeadline(now) != nil {
				// No deadlines on this platform's pipes: closing ends the reads.
				_ = p.outRead.Close()
				_ = p.errRead.Close()
			}
		}
	}
	r := Result{ExitCode: exitCode, Stdout: p.out.text(), Stderr: p.err.text()}
	r.Truncated = p.out.truncated() || p.err.truncated()
	return r
}

func (p *pipes) closeChild() {
	for _, f := range p.child {
		_ = f.Close()
	}
	p.child = nil
}

// close releases everything; closing twice does no harm.
func (p *pipes) close() {
	p.closeChild()
	for _, f := range []*os.File{p.stdinWrite, p.outRead, p.errRead} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// output keeps the beginning or the end of a stream. Around what is shown it keeps as much as the longest secret, so
// that a secret that is cut by the bound is still recognized.
//
//	head: [0 ............. limit | longest)            the rest is read and dropped
//	tail: (longest | limit ............. end]          a ring; total counts all bytes
type output struct {
	limit int
	tail  bool
	scrub Scrubber
	kept  []byte
	next  int // tail: where the ring is written next, once it is full
	total int64
}

func (o *output) room() int { return o.limit + o.scrub.Longest() }

func (o *output) readFrom(f *os.File) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := f.Read(buffer)
		o.write(buffer[:n])
		if err != nil {
			return // the end, or close or the deadline of result
		}
	}
}

func (o *output) write(data []byte) {
	o.total += int64(len(data))
	if free := o.room() - len(o.kept); free > 0 {
		n := min(free, len(data))
		o.kept = append(o.kept, data[:n]...)
		data = data[n:]
	}
	if !o.tail {
		return
	}
	for len(data) > 0 {
		n := copy(o.kept[o.next:], data)
		o.next = (o.next + n) % len(o.kept)
		data = data[n:]
	}
}

func (o *output) truncated() bool { return o.total > int64(o.limit) }

func (o *output) text() string {
	data := append(o.kept[o.next:len(o.kept):len(o.kept)], o.kept[:o.next]...)
	from, to := 0, min(len(data), o.limit)
	if o.tail {
		from, to = max(0, len(data)-o.limit), len(data)
	}
	// Cutting may halve a character; programs may also write no UTF-8 at all.
	return strings.ToValidUTF8(string(o.scrub.Scrub(data, from, to)), "\uFFFD")
}
