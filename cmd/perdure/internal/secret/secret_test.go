package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

func open(t *testing.T, values map[string]string) *Vault {
	t.Helper()
	sources := map[string]toolfile.SecretSource{}
	for name := range values {
		sources[name] = toolfile.SecretSource{Env: "ENV_" + name}
	}
	v := Open(sources, func(name string) (string, bool) {
		value, ok := values[strings.TrimPrefix(name, "ENV_")]
		return value, ok
	})
	for name := range values {
		if _, err := v.Get(name); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func TestEveryEncodingIsScrubbed(t *testing.T) {
	for _, value := range []string{"s3cr3t/+&=~ü\"<x>", "hunter2", "a\nb\tc d", "line one of a key\nline two of a key\n"} {
		s := open(t, map[string]string{"T": value}).Scrubber()
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			value, "x" + value + "y", url.QueryEscape(value), url.PathEscape(value), strings.ToLower(url.QueryEscape("/")) + url.QueryEscape(value),
			string(quoted), strings.ReplaceAll(string(quoted), "/", `\/`), fmt.Sprintf("%q", value), fmt.Sprintf("%+q", value), fmt.Sprintf("%x", value), fmt.Sprintf("%X", value),
			base64.StdEncoding.EncodeToString([]byte(value)),
			base64.URLEncoding.EncodeToString([]byte(value)),
			base64.StdEncoding.EncodeToString([]byte("u:" + value)),
			base64.StdEncoding.EncodeToString([]byte("user:" + value + "!")),
			base64.RawURLEncoding.EncodeToString([]byte("user1:" + value + "!!")),
		} {
			got := s.Text(text)
			if !strings.Contains(got, "[secret:T]") {
				t.Errorf("%q stays in %q", value, got)
			}
			if leaks(got, value) {
				t.Errorf("%q leaks in %q", value, got)
			}
		}
	}
}

// The character of base64 that the value's last bits share with nothing, or with what follows, goes with it, and its padding.
func TestNothingOfASecretsBase64Stays(t *testing.T) {
	for _, value := range []string{"hunter", "hunter2", "hunter22"} {
		s := open(t, map[string]string{"T": value}).Scrubber()
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
			text := "token " + encoding.EncodeToString([]byte(value)) + "\n"
			if got := s.Text(text); got != "token [secret:T]\n" {
				t.Errorf("%q becomes %q", text, got)
			}
		}
		if got := s.Text("a=" + value + "=="); got != "a=[secret:T]==" {
			t.Errorf("around the value itself: %q", got)
		}
	}
}

// leaks looks for the value in any decoding of what is left between the marks.
func leaks(text, value string) bool {
	for _, part := range strings.Split(text, "[secret:T]") {
		if strings.Contains(part, value) {
			return true
		}
		for _, decode := range []func(string) ([]byte, error){base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString, hex.DecodeString} {
			if plain, err := decode(part); err == nil && strings.Contains(string(plain), value) {
				return true
			}
		}
	}
	return false
}

func TestScrubAtTheEndsOfARange(t *testing.T) {
	s := open(t, map[string]string{"T": "SECRET"}).Scrubber()
	data := []byte("aaSECRETbbSECRETcc")
	for from := 0; from <= len(data); from++ {
		for to := from; to <= len(data); to++ {
			got := string(s.Scrub(data, from, to))
			rest := strings.ReplaceAll(got, "[secret:T]", "")
			if strings.ContainsAny(rest, "SECRT") {
				t.Errorf("[%d:%d] gives %q", from, to, got)
			}
		}
	}
	if got := string(s.Scrub(data, 4, 9)); got != "[secret:T]b" {
		t.Errorf("got %q", got)
	}
}

func TestTheLongestSecretWins(t *testing.T) {
	s := open(t, map[string]string{"SHORT": "abc", "LONG": "abcdef"}).Scrubber()
	if got := s.Text("abcdef abc"); got != "[secret:LONG] [secret:SHORT]" {
		t.Errorf("got %q", got)
	}
	if got := (*Scrubber)(nil).Scrub([]byte("abc"), 1, 2); string(got) != "b" {
		t.Errorf("a nil scrubber gives %q", got)
	}
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("from file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	v := Open(map[string]toolfile.SecretSource{
		"FILE": {File: file}, "LARGE": {File: large}, "GONE": {File: filepath.Join(dir, "gone")}, "DIR": {File: dir},
		"UNSET": {Env: "UNSET_X"}, "EMPTY": {Env: "EMPTY_X"},
	}, func(name string) (string, bool) { return "", name == "EMPTY_X" })
	if got, err := v.Get("FILE"); err != nil || got != "from file" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, want := range map[string]string{
		"LARGE": "at most", "GONE": "no such file", "DIR": "regular file", "UNSET": "no variable UNSET_X", "EMPTY": "is empty", "OTHER": "not declared",
	} {
		if _, err := v.Get(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
