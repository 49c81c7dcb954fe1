package boltstore

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// remainOf is what follows the store's name in that of a temporary file: see create, Restore and Compact.
var remainOf = regexp.MustCompile(`^\.(new|restore|compact)-[0-9]+-[0-9]+$`)

// removeRemains removes what processes that were killed while they made, restored or compacted this store have left beside
// it. The caller has the store open for writing, so nobody compacts it, and a file that is still being made for its name can
// no longer get it. What cannot be removed is in nobody's way, and is named.
func removeRemains(path string, log *slog.Logger) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Warn("remains of an interrupted restore or compaction are not looked for", "folder", dir, "error", err)
		return
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), base)
		if !ours || !e.Type().IsRegular() || !remainOf.MatchString(rest) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if err := os.Remove(name); err != nil {
			log.Warn("a file that an interrupted creation, restore or compaction has left can be deleted", "file", name, "error", err)
			continue
		}
		log.Info("what an interrupted creation, restore or compaction had left is removed", "file", name)
	}
}
