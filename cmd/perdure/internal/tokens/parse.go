package tokens

import (
	"fmt"
	"strings"
)

// table is a file's content. It is immutable.
type table map[Digest]Bearer

// parse reads a file's text. Its error names the first line that is wrong, and never what a line holds: it might be a token.
func parse(text string) (table, error) {
	t := table{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		digest, ok := parseDigest(fields[0])
		if !ok || len(fields) < 2 || len(fields) > 3 {
			return nil, fmt.Errorf("line %d: want %sDIGEST PRINCIPAL [TENANT], the digest as 64 hexadecimal digits", number, digestPrefix)
		}
		b := Bearer{Principal: fields[1]}
		if len(fields) == 3 {
			b.Tenant = fields[2]
		}
		if err := b.Check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, twice := t[digest]; twice {
			return nil, fmt.Errorf("line %d: the token has a line already; a token is one bearer's", number)
		}
		t[digest] = b
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("there is no token in it: nobody could call")
	}
	return t, nil
}
