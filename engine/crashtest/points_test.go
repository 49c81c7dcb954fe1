package crashtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine/internal/overlay"
)

// The moments of a commit, in order.
var moments = []string{
	"staged",    // checked and staged, nothing written
	"half",      // half of its record is written to the log
	"logged",    // the whole record is, and it is not synced
	"page",      // some of its pages are written: of a group that is committed to the file, or with the flush of the log
	"written",   // all its pages are, and none is synced
	"synced",    // its pages are synced, the meta page that makes them the newest is not written
	"meta",      // the meta page is written, and not synced
	"committed", // it is durable, and nobody knows: neither the store's memory nor its callers
	"told",      // the subscribers are told, the callers are not
}

// commitPaths are the writes that go through the committer: the names that they are submitted under.
var commitPaths = []string{
	"start", "deliver", "answer", "cancel", "terminate", "pause", "resume", "redeliver", "put definition", "secret",
	"commit", "renew", "release", "expire leases",
	"place hold", "release hold", "put receipt", "delete", "erase", "purge", "erase payloads", "prune",
}

// Of what is a transaction of its own, or several, or none, a path has these moments.
var (
	ofSession = []string{
		"open/page", "open/written", "open/synced", "open/meta",
		"close/page", "close/written", "close/synced", "close/meta", "close/unnamed", "close/closed",
		"log/half", "log/made", "log/reused", // as it is made, or taken over from the time before, and no file names it
		"flush/before", "flush/done", // when it is committed to the file, and when that is done and the log not yet used again
		"replay/page", "replay/written", "replay/synced", "replay/meta", "replay/done", // at open
	}
	ofUpkeep = []string{
		"create/staged", "create/page", "create/written", "create/synced", "create/meta", "create/unnamed", "create/named",
		"upgrade/page", "upgrade/written", "upgrade/synced", "upgrade/meta", "upgrade/begun", "upgrade/batch",
		"compact/page", "compact/copied", "compact/checked", "compact/renamed", // it syncs once, when all is copied
		"backup/half", "restore/copied", "restore/raised", "restore/named",
	}
)

// points returns the points of the matrix: those that the workload passes, and those of upkeep.
func points() (work, upkeep []string) {
	for _, path := range commitPaths {
		for _, m := range moments {
			work = append(work, path+"/"+m)
		}
	}
	return append(work, ofSession...), ofUpkeep
}

const boltstoreDir = "engine/boltstore/"

// storeEdits put the points into boltstore.
var storeEdits = []overlay.Edit{
	// The committer.
	{File: boltstoreDir + "committer.go", Old: "\t\"github.com/perdure/perdure/history\"\n", New: "\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n\t\"github.com/perdure/perdure/history\"\n"},
	{File: boltstoreDir + "committer.go", Old: "\treturn s.wrap(name, s.await(ctx, o))\n", New: "\tif o.stage != nil {\n\t\to.stage = failpoint.Op(name, o.stage)\n\t}\n\treturn s.wrap(name, s.await(ctx, o))\n"},
	{File: boltstoreDir + "committer.go", Old: "\tpending := s.early(group)\n", New: "\tif !s.work.redo.lacking() { // else a flush is of theirs too\n\t\tfailpoint.Leave()\n\t}\n\tpending := s.early(group)\n"},
	{File: boltstoreDir + "committer.go", Old: "\t\terr = s.persist()\n", New: "\t\tfailpoint.Moment(\"staged\")\n\t\tif err = s.persist(); err == nil {\n\t\t\tfailpoint.Moment(\"committed\")\n\t\t}\n"},
	{File: boltstoreDir + "committer.go", Old: "\t\ts.tell.send(t.publish())\n", New: "\t\ts.tell.send(t.publish())\n\t\tfailpoint.Moment(\"told\")\n"},
	// The log.
	{File: boltstoreDir + "redo.go", Old: "\t\"github.com/perdure/perdure/engine/dirsync\"\n", New: "\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n\t\"github.com/perdure/perdure/engine/dirsync\"\n"},
	{File: boltstoreDir + "redo.go", Old: "\tif _, err := r.file.WriteAt(rec, r.at); err != nil {\n", New: "\tif _, err := r.file.WriteAt(rec[:len(rec)/2], r.at); err == nil {\n\t\tfailpoint.Moment(\"half\")\n\t}\n\tif _, err := r.file.WriteAt(rec, r.at); err != nil {\n"},
	{File: boltstoreDir + "redo.go", Old: "\tif err := dataSync(r.file); err != nil {\n", New: "\tfailpoint.Moment(\"logged\")\n\tif err := dataSync(r.file); err != nil {\n"},
	{File: boltstoreDir + "redo.go", Old: "\t\t_, err = f.Write(block)\n", New: "\t\t_, err = f.Write(block)\n\t\tfailpoint.Hit(\"log/half\")\n"},
	{File: boltstoreDir + "redo.go", Old: "\t\treturn newLog{err: errors.Join(err, f.Close(), os.Remove(path))}\n\t}\n", New: "\t\treturn newLog{err: errors.Join(err, f.Close(), os.Remove(path))}\n\t}\n\tfailpoint.Hit(\"log/made\")\n"},
	{File: boltstoreDir + "flush.go", Old: "\t\"github.com/perdure/perdure/history\"\n", New: "\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n\t\"github.com/perdure/perdure/history\"\n"},
	{File: boltstoreDir + "flush.go", Old: "\t\t\terr = s.land(s.logToName())\n", New: "\t\t\tfailpoint.Hit(\"flush/before\")\n\t\t\terr = s.land(s.logToName())\n"},
	{File: boltstoreDir + "flush.go", Old: "\tr.named = id != 0\n", New: "\tif r.lacking() {\n\t\tfailpoint.Hit(\"flush/done\")\n\t}\n\tr.named = id != 0\n"},
	{File: boltstoreDir + "recover.go", Old: "\t\"github.com/perdure/perdure/history\"\n", New: "\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n\t\"github.com/perdure/perdure/history\"\n"},
	{File: boltstoreDir + "recover.go", Old: "\terr = s.db.Update(func(tx *bolt.Tx) error {\n", New: "\tif len(recs) > 0 {\n\t\tfailpoint.Enter(\"replay\")\n\t\tdefer failpoint.Hit(\"replay/done\")\n\t\tdefer failpoint.Leave()\n\t}\n\terr = s.db.Update(func(tx *bolt.Tx) error {\n"},
	// Opening, creating, closing.
	{File: boltstoreDir + "open.go", Old: "\t\"github.com/perdure/perdure/history\"\n", New: "\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n\t\"github.com/perdure/perdure/history\"\n"},
	{File: boltstoreDir + "open.go", Old: "\t\treturn s.db.Update(raise)\n", New: "\t\tif s.work.redo.file != nil {\n\t\t\tfailpoint.Hit(\"log/reused\")\n\t\t}\n\t\tfailpoint.Leave()\n\t\tfailpoint.Enter(\"open\")\n\t\treturn s.db.Update(raise)\n"},
	{File: boltstoreDir + "open.go", Old: "\t\tm := meta{format: fileFormat, time: history.TimeOf(o.Clock())}\n", New: "\t\tfailpoint.Enter(\"create\")\n\t\tfailpoint.Moment(\"staged\")\n\t\tm := meta{format: fileFormat, time: history.TimeOf(o.Clock())}\n"},
	{File: boltstoreDir + "open.go", Old: "\terr := makeFile(tmp, o)\n\tif err == nil {\n\t\terr = place(tmp, path)\n\t}\n", New: "\terr := makeFile(tmp, o)\n\tfailpoint.Leave()\n\tfailpoint.Hit(\"create/unnamed\")\n\tif err == nil {\n\t\terr = place(tmp, path)\n\t}\n\tfailpoint.Hit(\"create/named\")\n"},
	{File: boltstoreDir + "store.go", Old: "\t\"github.com/perdure/perdure/engine\"\n", New: "\t\"github.com/perdure/perdure/engine\"\n\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n"},
	{File: boltstoreDir + "store.go", Old: "\ts.db.NoFreelistSync = false\n", New: "\ts.db.NoFreelistSync = false\n\tfailpoint.Leave()\n\tfailpoint.Enter(\"close\")\n\tdefer failpoint.Leave()\n"},
	{File: boltstoreDir + "store.go", Old: "\t\t\treturn s.wrap(\"close\", errors.Join(s.work.redo.remove(), s.db.Close()))\n", New: "\t\t\tfailpoint.Hit(\"close/unnamed\")\n\t\t\tdefer failpoint.Hit(\"close/closed\")\n\t\t\treturn s.wrap(\"close\", errors.Join(s.work.redo.remove(), s.db.Close()))\n"},
	// The upgrade of an older file.
	{File: boltstoreDir + "upgrade.go", Old: "\t\"github.com/perdure/perdure/history\"\n", New: "\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n\t\"github.com/perdure/perdure/history\"\n"},
	{File: boltstoreDir + "upgrade.go", Old: "\tif err := u.store.db.Update(u.begin); err != nil {\n\t\treturn err\n\t}\n", New: "\tfailpoint.Enter(\"upgrade\")\n\tdefer failpoint.Leave()\n\tif err := u.store.db.Update(u.begin); err != nil {\n\t\treturn err\n\t}\n\tfailpoint.Hit(\"upgrade/begun\")\n"},
	{File: boltstoreDir + "upgrade.go", Old: "\t\tu.at = next\n", New: "\t\tu.at = next\n\t\tfailpoint.Hit(\"upgrade/batch\")\n"},
	// Restore and Compact; the child's own code passes the point of a backup.
	{File: boltstoreDir + "backup.go", Old: "\t\"github.com/perdure/perdure/engine\"\n", New: "\t\"github.com/perdure/perdure/engine\"\n\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n"},
	{File: boltstoreDir + "backup.go", Old: "\terr := copyFile(backup, tmp)\n", New: "\terr := copyFile(backup, tmp)\n\tfailpoint.Hit(\"restore/copied\")\n"},
	{File: boltstoreDir + "backup.go", Old: "\t\terr = placeNew(tmp, path)\n\t}\n", New: "\t\tfailpoint.Hit(\"restore/raised\")\n\t\terr = placeNew(tmp, path)\n\t\tfailpoint.Hit(\"restore/named\")\n\t}\n"},
	{File: boltstoreDir + "backup.go", Old: "\terr = compactInto(ctx, old, tmp)\n", New: "\tfailpoint.Leave()\n\tfailpoint.Enter(\"compact\")\n\terr = compactInto(ctx, old, tmp)\n\tfailpoint.Leave()\n\tfailpoint.Hit(\"compact/copied\")\n"},
	{File: boltstoreDir + "backup.go", Old: "\t\terr = os.Rename(tmp, path)\n\t}\n\tif err == nil {\n\t\treturn c, dirsync.Name(path)\n", New: "\t\tfailpoint.Hit(\"compact/checked\")\n\t\terr = os.Rename(tmp, path)\n\t\tfailpoint.Hit(\"compact/renamed\")\n\t}\n\tif err == nil {\n\t\treturn c, dirsync.Name(path)\n"},
	// A log for the second group.
	{File: boltstoreDir + "redo.go", Old: "\tredoAfter = 4\n", New: "\tredoAfter = 1\n"},
	// Smaller batches, so that small stores have several.
	{File: boltstoreDir + "upgrade.go", Old: "const upgradeBatch = 1000\n", New: "const upgradeBatch = 10\n"},
	{File: "engine/cleaner.go", Old: "const EraseLimit = 1000\n", New: "const EraseLimit = 8\n"},
}

// boltEdits put the points into bbolt. They stand where its own failpoints do.
var boltEdits = []overlay.Edit{
	{File: "tx.go", Old: "\t\"go.etcd.io/bbolt/internal/common\"\n", New: "\t\"go.etcd.io/bbolt/internal/common\"\n\n\t\"github.com/perdure/perdure/engine/crashtest/failpoint\"\n"},
	{File: "tx.go", Old: "\t\t\ttx.stats.IncWrite(1)\n\n\t\t\t// Exit inner for loop", New: "\t\t\ttx.stats.IncWrite(1)\n\t\t\tfailpoint.Moment(\"page\")\n\n\t\t\t// Exit inner for loop"},
	{File: "tx.go", Old: "\t\t// gofail: var beforeSyncDataPages struct{}\n", New: "\t\tfailpoint.Moment(\"written\")\n"},
	{File: "tx.go", Old: "\t// gofail: var beforeWriteMetaError string\n", New: "\tfailpoint.Moment(\"synced\")\n"},
	{File: "tx.go", Old: "\t\t// gofail: var beforeSyncMetaPage struct{}\n", New: "\t\tfailpoint.Moment(\"meta\")\n"},
}

// envEdits names a file with edits as JSON: a bug that is planted in the child, which the matrix is to find.
const envEdits = "PERDURE_CRASH_EDITS"

func plantedEdits(t *testing.T) (edits []overlay.Edit) {
	t.Helper()
	name := os.Getenv(envEdits)
	if name == "" {
		return nil
	}
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &edits)
	}
	if err != nil {
		t.Fatalf("%s: %v", envEdits, err)
	}
	return edits
}

// clusterEdits make it worth to wait for what is patient in use.
var clusterEdits = []overlay.Edit{
	{File: "engine/sweep.go", Old: "sweepTTL = time.Minute\n", New: "sweepTTL = time.Second\n"},
	{File: "worker/held.go", Old: "const retryDelay = 5 * time.Second\n", New: "const retryDelay = 50 * time.Millisecond\n"},
}

// buildChild builds this package's test binary with the points in it, and without the race detector: the child is killed some
// hundred times, and the engine's other tests are for that.
func buildChild(t *testing.T, more ...overlay.Edit) (path string) {
	t.Helper()
	dir := t.TempDir()
	o, root := plant(t, dir, more...)
	path = filepath.Join(dir, "child")
	args := append([]string{"test", "-c", "-o", path}, o.Flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./engine/crashtest")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build the child: %w\n%s", err, out))
	}
	return path
}

// plant writes the files with the points in them to a folder.
func plant(t *testing.T, dir string, more ...overlay.Edit) (o *overlay.Overlay, root string) {
	t.Helper()
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	o, err = overlay.Write(dir, root, slices.Concat(plantedEdits(t), storeEdits, more)...)
	if err == nil {
		err = o.Copy(dir, root, "go.etcd.io/bbolt", boltEdits...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o, root
}

// TestPointsFitTheCode says within a moment what the matrix would find after minutes: that the code has moved from under a point.
func TestPointsFitTheCode(t *testing.T) { plant(t, t.TempDir(), clusterEdits...) }

// TestEveryWriteIsInTheMatrix reads the names of the writes in the store's code. What goes to the committer by submitOp is in
// memory only.
func TestEveryWriteIsInTheMatrix(t *testing.T) {
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(boltstoreDir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\.(?:submit|endRun)\(ctx, "([^"]+)"`)
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(b, -1) {
			found[string(m[1])] = true
		}
	}
	want := slices.Sorted(slices.Values(commitPaths))
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("the store's writes are %q, the matrix has %q", got, want)
	}
}
