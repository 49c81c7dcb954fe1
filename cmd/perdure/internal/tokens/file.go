package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/mcptasks"
)

// maxFile bounds a file, in bytes: some ten thousand tokens.
const maxFile = 1 << 20

// File is a file of tokens that is in use.
type File struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	tokens table // guarded by mu
	seen   stamp // guarded by mu; the file at the last attempt to load it
}

// stamp changes whenever a file does; the zero value is no file.
type stamp struct {
	modified time.Time
	size     int64
	mode     fs.FileMode
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.ModTime(), info.Size(), info.Mode()} }

// Open loads a file of tokens.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	if err := f.load(); err != nil {
		code, hint := exit.Of(err)
		return nil, exit.New(code, cmp.Or(hint, "make a token, and the file: perdure token new PRINCIPAL --file "+path), "tokens: %w", err)
	}
	return f, nil
}

// load reads the file. mu is held, or nobody else has f yet.
func (f *File) load() error {
	data, info, err := regular.Read(f.path, maxFile)
	if err != nil {
		return err
	}
	f.seen = stampOf(info)
	// Windows has no such bits: there the folder's access list decides.
	if open := info.Mode().Perm() & 0o027; open != 0 && runtime.GOOS != "windows" {
		return exit.New(exit.Failed, "chmod 600 "+f.path, "%s has mode %04o: its group may write to it, or others read it; want chmod 640 or 600", f.path, info.Mode().Perm())
	}
	t, err := parse(string(data))
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.tokens = t
	return nil
}

// find returns the bearer of a token. It looks at the file first.
func (f *File) find(d Digest) (Bearer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	b, ok := f.tokens[d]
	return b, ok
}

// refresh loads the file anew where it has changed. One that is gone is no new one: an editor may be replacing it. mu is held.
func (f *File) refresh() {
	info, err := os.Stat(f.path)
	if err != nil || stampOf(info) == f.seen {
		return
	}
	f.seen = stampOf(info)
	if err := f.load(); err != nil {
		f.log.Error("tokens were not reloaded: those from before stay", "error", err)
		return
	}
	f.log.Info("tokens loaded", "tokens", len(f.tokens))
}

// digestKey is where Verify leaves a token's digest for Identify.
const digestKey = "perdure.dev/token-digest"

// Verify is an auth.TokenVerifier.
func (f *File) Verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	d := DigestOf(token)
	b, ok := f.find(d)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: b.Tenant + "/" + b.Principal, Extra: map[string]any{digestKey: d}}, nil
}

var errRevoked = errors.New("the token is no longer in the file")

// Identify is an mcptasks.Identify: who bears the token now, which may have been verified a while ago. What came without a
// token came over the local socket, which is the server's own user.
func (f *File) Identify(_ context.Context, x *mcp.RequestExtra) (mcptasks.Caller, error) {
	if x == nil || x.TokenInfo == nil {
		return mcptasks.Caller{}, nil
	}
	d, _ := x.TokenInfo.Extra[digestKey].(Digest) // the zero digest is nobody's
	b, ok := f.find(d)
	if !ok {
		return mcptasks.Caller{}, errRevoked
	}
	return mcptasks.Caller{Tenant: b.Tenant, Principal: b.Principal}, nil
}
