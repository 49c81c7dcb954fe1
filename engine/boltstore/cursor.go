package boltstore

import (
	"encoding/base64"
	"fmt"

	"github.com/perdure/perdure/history"
)

// A cursor is a key, as text, where a page ended.

func encodeCursor(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

// decodeCursor takes only what encodeCursor writes: base64 has other spellings of the same bytes.
func decodeCursor(text string) ([]byte, error) {
	key, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(key) == 0 || encodeCursor(key) != text {
		return nil, badCursor(text)
	}
	return key, nil
}

func badCursor(text string) error {
	return fmt.Errorf("cursor %.32q is not one that a page came with: %w", text, history.ErrInvalid)
}
