package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line that is read at all, maxMessage one that is passed on: less than the 16 MiB at which the server
// would drop the connection, so that it can answer what is over its own limit. Between the two the relay answers; past
// maxLine it ends.
const (
	maxLine    = 64 << 20
	maxMessage = 15 << 20
)

// scan sends the lines of r, without their ends, and closes the channel at its end; why it ended is then in *cause.
func scan(ctx context.Context, r io.Reader, cause *error) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		br := bufio.NewReaderSize(r, 64<<10)
		for {
			line, err := readLine(br)
			if line = bytes.TrimSpace(line); len(line) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					*cause = ctx.Err()
					return
				}
			}
			if err != nil {
				*cause = err
				return
			}
		}
	}()
	return lines
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("a message is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
