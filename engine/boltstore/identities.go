package boltstore

import (
	"bytes"
	"encoding/binary"

	"github.com/perdure/perdure/history"
)

// remember keeps the identity of an item that a run has accepted, and lets go of the oldest ones once they are both old
// and many: see history.IdentityAge. It forgets at most two, so that a run that has too many gets down to the bound.
func (st *stage) remember(w *workRun, key []byte, digest history.Digest) {
	st.put(bIdentities, key, bytes.Clone(digest[:]))
	if w.lastIdentity == 0 {
		w.lastIdentity = st.lastSeq(bIdentityLog, w.id)
	}
	w.lastIdentity++
	st.put(bIdentityLog, runSeqKey(w.id, w.lastIdentity), append(timeBytes(nil, st.now), key[runLen:]...))
	forgotten := 0
	for k, val := range st.scan(bIdentityLog, w.id[:], nil) {
		count := w.lastIdentity + 1 - binary.BigEndian.Uint64(k[runLen:])
		if forgotten == 2 || count <= history.IdentityCount || timeOf(val).Add(history.IdentityAge) > st.now {
			return
		}
		st.delete(bIdentityLog, bytes.Clone(k))
		st.delete(bIdentities, runTextKey(w.id, string(val[8:])))
		forgotten++
	}
}
