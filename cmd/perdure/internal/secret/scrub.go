package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Scrubber replaces secrets by [secret:NAME]. The zero value knows none. It is immutable once made.
type Scrubber struct {
	forms   []form
	first   [256]bool // first bytes of any form
	longest int
}

type form struct {
	text string
	name string
	// base64 says that the encoding's next character may hold the value's last bits, and padding follow it.
	base64 bool
}

// length is how much of data, which begins with the form, is the secret's.
func (f *form) length(data []byte) int {
	n := len(f.text)
	if !f.base64 || n == len(data) || !isBase64(data[n]) {
		return n
	}
	n++
	for pad := 0; pad < 2 && n < len(data) && data[n] == '='; pad++ {
		n++
	}
	return n
}

// maxTail is how far a base64 form reaches beyond its text.
const maxTail = 3

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}

// minEncoded is the shortest encoded form that is looked for: shorter ones would hit by chance.
const minEncoded = 4

func (s *Scrubber) add(name, value string) {
	seen := map[string]bool{}
	put := func(text string, partial bool) {
		if text == "" || seen[text] {
			return
		}
		seen[text] = true
		s.forms = append(s.forms, form{text, name, partial})
		s.first[text[0]] = true
		s.longest = max(s.longest, len(text)+maxTail)
	}
	put(value, false)
	for _, line := range strings.Split(value, "\n") {
		if len(line) >= 16 { // a key of several lines that is printed line by line
			put(strings.TrimSuffix(line, "\r"), false)
		}
	}
	for _, text := range encodings(value) {
		if len(text) >= minEncoded {
			put(text, false)
		}
	}
	for offset := range 3 {
		partial := (offset+len(value))%3 != 0 // else the last character is the value's alone
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if text := inBase64(encoding, value, offset); len(text) >= minEncoded {
				put(text, partial)
			}
		}
	}
}

// sort puts longer forms first, so that the longest match at a place wins, and makes the order repeatable.
func (s *Scrubber) sort() {
	slices.SortFunc(s.forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text), cmp.Compare(a.name, b.name))
	})
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

func encodings(value string) []string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	// A text always encodes.
	_ = encoder.Encode(value)
	escaped, _ := json.Marshal(value)
	out := []string{
		url.QueryEscape(value), url.PathEscape(value), everyByte(value),
		unquote(strings.TrimSuffix(plain.String(), "\n")), unquote(string(escaped)), unquote(strconv.Quote(value)), unquote(strconv.QuoteToASCII(value)),
		hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
	}
	for _, text := range out[3:5] { // some JSON encoders escape slashes
		out = append(out, strings.ReplaceAll(text, "/", `\/`))
	}
	for _, text := range out[:3] {
		out = append(out, percent.ReplaceAllStringFunc(text, strings.ToLower))
	}
	return out
}

func unquote(text string) string { return text[1 : len(text)-1] }

// everyByte is percent-encoding of all but letters and digits, as strict encoders write it.
func everyByte(value string) string {
	var out strings.Builder
	for _, b := range []byte(value) {
		if (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') {
			out.WriteByte(b)
			continue
		}
		out.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{b})))
	}
	return out.String()
}

// inBase64 returns what a longer text's base64 must contain when the value begins at an offset (modulo 3) in it: the
// characters that only the value decides. So "user:" + secret is found too.
func inBase64(encoding *base64.Encoding, value string, offset int) string {
	encoded := encoding.EncodeToString(append(make([]byte, offset), value...))
	from := (offset*8 + 5) / 6
	to := (offset + len(value)) * 8 / 6
	if from >= to {
		return ""
	}
	return encoded[from:to]
}

// Longest returns the length of the longest form in bytes. Who keeps only a part of an output must look that far past
// its ends.
func (s *Scrubber) Longest() int {
	if s == nil {
		return 0
	}
	return s.longest
}

// Scrub returns data[from:to] without secrets. A secret that crosses an end of the range is replaced as a whole.
func (s *Scrubber) Scrub(data []byte, from, to int) []byte {
	if s == nil || len(s.forms) == 0 {
		return slices.Clone(data[from:to])
	}
	var out bytes.Buffer
	for at := 0; at < to; {
		if f, ok := s.match(data[at:]); ok {
			if at+f.length(data[at:]) > from {
				out.WriteString("[secret:" + f.name + "]")
			}
			at += f.length(data[at:])
			continue
		}
		if at >= from {
			out.WriteByte(data[at])
		}
		at++
	}
	return out.Bytes()
}

func (s *Scrubber) match(data []byte) (form, bool) {
	if !s.first[data[0]] {
		return form{}, false
	}
	for _, f := range s.forms {
		if len(data) >= len(f.text) && string(data[:len(f.text)]) == f.text {
			return f, true
		}
	}
	return form{}, false
}

// Text returns a text without secrets.
func (s *Scrubber) Text(text string) string {
	return string(s.Scrub([]byte(text), 0, len(text)))
}
