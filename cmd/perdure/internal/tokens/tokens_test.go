package tokens

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/mcptasks"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(temporary, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// A token is its bearer's while it has a line, in requests and in streams that began before.
func TestTokensComeAndGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	alice, bob := New(), New()
	of := func(token, principal, tenant string) string { return Line(DigestOf(token), Bearer{tenant, principal}) }
	write(t, path, "# who may call\n\n"+of(alice, "alice", "acme"), 0o600)
	var log bytes.Buffer
	f, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	who := func(x *auth.TokenInfo) (mcptasks.Caller, error) {
		return f.Identify(t.Context(), &mcp.RequestExtra{TokenInfo: x})
	}
	info, err := f.Verify(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := who(info); err != nil || c != (mcptasks.Caller{Tenant: "acme", Principal: "alice"}) {
		t.Errorf("alice is %+v (%v)", c, err)
	}
	for _, wrong := range []string{bob, "", alice + "x", DigestOf(alice).String()} {
		if _, err := f.Verify(t.Context(), wrong, nil); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("token %q: %v", wrong, err)
		}
	}
	if c, err := who(nil); err != nil || c != (mcptasks.Caller{}) {
		t.Errorf("the socket's caller is %+v (%v)", c, err)
	}
	if _, err := who(&auth.TokenInfo{UserID: "acme/alice"}); err == nil {
		t.Error("a token that nobody verified here has a bearer")
	}
	// A file with mistakes changes nothing.
	write(t, path, "sha256:beef bob\n"+of(bob, "bob", ""), 0o600)
	if c, err := who(info); err != nil || c.Principal != "alice" || !strings.Contains(log.String(), "those from before stay") {
		t.Errorf("after a file with mistakes: %+v (%v); log %s", c, err, &log)
	}
	write(t, path, of(bob, "bob", ""), 0o600)
	if _, err := who(info); err == nil {
		t.Error("a token without a line has a bearer")
	}
	if _, err := f.Verify(t.Context(), alice, nil); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("a token without a line is verified: %v", err)
	}
	if info, err = f.Verify(t.Context(), bob, nil); err != nil {
		t.Fatal(err)
	}
	if c, err := who(info); err != nil || c != (mcptasks.Caller{Principal: "bob"}) {
		t.Errorf("bob is %+v (%v)", c, err)
	}
	if strings.Contains(log.String(), bob) || strings.Contains(log.String(), alice) {
		t.Errorf("the log holds a token: %s", &log)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	line := Line(DigestOf("x"), Bearer{Principal: "alice"})
	for name, c := range map[string]struct {
		text, want string
		mode       os.FileMode
	}{
		"empty":             {"# nobody\n", "no token", 0o600},
		"a token itself":    {New() + " alice\n", "line 1", 0o600},
		"a short digest":    {"sha256:beef alice\n", "line 1", 0o600},
		"no principal":      {DigestOf("x").String() + "\n", "line 1", 0o600},
		"too many words":    {line + strings.TrimSpace(line) + " acme more\n", "line 2", 0o600},
		"a token twice":     {line + line, "line 2", 0o600},
		"a long principal":  {Line(DigestOf("x"), Bearer{Principal: strings.Repeat("a", maxName+1)}), "principal", 0o600},
		"a control code":    {Line(DigestOf("x"), Bearer{Principal: "a\x00b"}), "principal", 0o600},
		"too large":         {strings.Repeat("#", maxFile+1), "too large", 0o600},
		"open to others":    {line, "chmod", 0o644},
		"open to its group": {line, "chmod", 0o660},
	} {
		if c.want == "chmod" && runtime.GOOS == "windows" {
			continue
		}
		path := filepath.Join(t.TempDir(), "tokens")
		write(t, path, c.text, c.mode)
		_, err := Open(path, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), tokenPrefix) {
			t.Errorf("%s: the error shows a token: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Line(DigestOf("a"), Bearer{"acme", "alice"}) + "# x\n\n" + Line(DigestOf("b"), Bearer{"", "bob"}))
	f.Add("sha256:00 x")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parse(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for d, b := range parsed {
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
			again.WriteString(Line(d, b))
		}
		reparsed, err := parse(again.String())
		if err != nil || len(reparsed) != len(parsed) {
			t.Fatalf("%q does not come back: %v", again.String(), err)
		}
		for d, b := range parsed {
			if reparsed[d] != b {
				t.Fatalf("%v became %v", b, reparsed[d])
			}
		}
	})
}
