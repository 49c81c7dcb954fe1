// Package secret resolves the secrets of a tool file and removes them from what a step leaves behind.
//
// A Vault belongs to one execution of one step. It reads a secret when it is first asked for and keeps it only in
// memory. Its Scrubber knows the secrets that were handed out, in the forms in which programs echo them: as they are,
// and encoded for URLs, JSON, base64 and hexadecimal.
package secret

import (
	"fmt"
	"os"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// maxFile bounds a secret's file, in bytes.
const maxFile = 64 << 10

// Vault hands out secrets. It is not for use by several goroutines at once.
type Vault struct {
	sources map[string]toolfile.SecretSource
	env     func(string) (string, bool)
	values  map[string]string
}

// Open makes a vault over declared sources. env looks up the server's environment; nil is os.LookupEnv.
func Open(sources map[string]toolfile.SecretSource, env func(string) (string, bool)) *Vault {
	if env == nil {
		env = os.LookupEnv
	}
	return &Vault{sources: sources, env: env, values: map[string]string{}}
}

// Get returns a secret's value. Its error names the secret and its source, never a value.
func (v *Vault) Get(name string) (string, error) {
	if value, ok := v.values[name]; ok {
		return value, nil
	}
	source, ok := v.sources[name]
	if !ok {
		return "", fmt.Errorf("secret %s is not declared", name)
	}
	value, err := v.read(name, source)
	if err != nil {
		return "", err
	}
	if value == "" {
		return "", fmt.Errorf("secret %s is empty", name)
	}
	v.values[name] = value
	return value, nil
}

func (v *Vault) read(name string, source toolfile.SecretSource) (string, error) {
	if source.Env != "" {
		value, ok := v.env(source.Env)
		if !ok {
			return "", fmt.Errorf("secret %s: the server's environment has no variable %s", name, source.Env)
		}
		return value, nil
	}
	data, _, err := regular.Read(source.File, maxFile)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// Scrubber removes the secrets that were handed out so far.
func (v *Vault) Scrubber() *Scrubber {
	s := &Scrubber{}
	for name, value := range v.values {
		s.add(name, value)
	}
	s.sort()
	return s
}
