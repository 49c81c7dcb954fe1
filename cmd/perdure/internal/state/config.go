package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

// ConfigName is the name of a configuration file where none is given.
const ConfigName = "perdure.yaml"

// FindConfig returns the configuration file: the one that is given, else $PERDURE_CONFIG, else perdure.yaml in the
// working folder, else perdure/perdure.yaml in the user's folder for configurations. Its error matches fs.ErrNotExist where
// there is none.
func FindConfig(given string) (string, error) {
	if given == "" {
		given = os.Getenv("PERDURE_CONFIG")
	}
	if given != "" {
		return filepath.Abs(given)
	}
	candidates := []string{ConfigName}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "perdure", ConfigName))
	}
	for _, c := range candidates {
		if _, err := os.Stat(c); err == nil {
			return filepath.Abs(c)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("configuration: %w", err)
		}
	}
	hint := "write an example with: perdure init\nor name the file with --config FILE"
	return "", exit.New(exit.NotFound, hint, "no configuration: there is no %s: %w", candidates[0], fs.ErrNotExist)
}

// Find returns the state folder that the flags mean: the one that is given, else $PERDURE_STATE, else the one of the
// configuration file that FindConfig finds.
func Find(given, config string) (Dir, error) {
	if given == "" {
		given = os.Getenv("PERDURE_STATE")
	}
	if given != "" {
		return At(given)
	}
	file, err := FindConfig(config)
	if err != nil {
		return Dir{}, err
	}
	return For(file)
}
