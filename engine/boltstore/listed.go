package boltstore

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/perdure/perdure/history"
)

// The index of runs for List, written once at the start of a run and deleted with it. A row is what runs have in common,
// then the run, so that the runs of each kind are in the order of their ids:
//
//	byWorkflow  | tenant length 2 | tenant | name length 1 | name | run16   of every run
//	byPrincipal | digest16 of tenant and principal | run16                  of a run that has one
//	byTag       | digest16 of name and value | run16                        of each tag
//
// A digest that two share makes a candidate too many, which List finds not to match.
const (
	byWorkflow  = 1
	byPrincipal = 2
	byTag       = 3
)

// facetLen is the length of the digest in a row by principal or tag.
const facetLen = 16

func workflowFacet(tenant, workflow string) []byte {
	return append([]byte{byWorkflow}, closedPrefix(tenant, workflow)...)
}

// tenantFacet is the part that the rows of a tenant's workflows share.
func tenantFacet(tenant string) []byte { return append([]byte{byWorkflow}, tenantKey(tenant, "")...) }

func principalFacet(tenant, principal string) []byte { return facet(byPrincipal, tenant, principal) }

func tagFacet(name, value string) []byte { return facet(byTag, name, value) }

func facet(kind byte, a, b string) []byte {
	sum := sha256.Sum256(tenantKey(a, b))
	return append([]byte{kind}, sum[:facetLen]...)
}

// listedRows are the rows of a run in the index.
func listedRows(s *history.Spec) [][]byte {
	facets := append(make([][]byte, 0, 2+len(s.Tags)), workflowFacet(s.Tenant, s.Workflow))
	if s.Principal != "" {
		facets = append(facets, principalFacet(s.Tenant, s.Principal))
	}
	for name, value := range s.Tags {
		facets = append(facets, tagFacet(name, value))
	}
	for i := range facets {
		facets[i] = append(facets[i], s.ID[:]...)
	}
	return facets
}

func (st *stage) putListed(s *history.Spec) {
	for _, row := range listedRows(s) {
		st.put(bListed, row, []byte{})
	}
}

func (st *stage) deleteListed(s *history.Spec) {
	for _, row := range listedRows(s) {
		st.delete(bListed, row)
	}
}

// verifyListed proves that List finds the run by all that it has.
func (v *view) verifyListed(run *history.Run, found *findings) {
	if !v.has(bListed) {
		return
	}
	for _, row := range listedRows(&run.Spec) {
		if v.get(bListed, row) == nil {
			found.add(run.ID, history.RuleIndex, "has no row %x in listed", row)
		}
	}
}

func verifyListedRow(v *view, k, _ []byte, found *findings) {
	if len(k) < 1+runLen {
		found.add(history.RunID{}, history.RuleIndex, "key %x in listed is cut short", k)
		return
	}
	run, _, ok := v.runOf(bListed, k[len(k)-runLen:], found)
	if !ok {
		return
	}
	for _, row := range listedRows(&run.Spec) {
		if bytes.Equal(row, k) {
			return
		}
	}
	found.add(run.ID, history.RuleIndex, "row %x in listed is not one of its rows", k)
}

// maxParts bounds the parts of the index that are merged for one filter.
const maxParts = 256

// workflowParts returns the prefixes of the rows of a tenant (nil: of all) and a workflow ("": of all). ok is false where there
// are more than maxParts: then a walk over all runs is no worse.
func (v *view) workflowParts(tenant *string, workflow string) (parts [][]byte, ok bool) {
	c := v.bucket(bListed).Cursor()
	if tenant != nil && workflow != "" {
		return [][]byte{workflowFacet(*tenant, workflow)}, true
	}
	from := []byte{byWorkflow}
	if tenant != nil {
		from = tenantFacet(*tenant)
	}
	within := bytes.Clone(from)
	for looked := 0; ; looked++ {
		k, _ := c.Seek(from)
		if k == nil || !bytes.HasPrefix(k, within) || len(k) < 1+runLen {
			return parts, true
		}
		if looked == maxParts {
			return nil, false
		}
		of, name, ok := splitWorkflowFacet(k[:len(k)-runLen])
		switch {
		case !ok: // Verify names it
			from = append(bytes.Clone(k), 0)
		case workflow == "":
			parts = append(parts, workflowFacet(of, name))
			from = past(parts[len(parts)-1], runLen)
		default:
			parts = append(parts, workflowFacet(of, workflow))
			from = past(tenantFacet(of), 2) // no name that is 255 bytes long begins with 0xff
		}
	}
}

// past is a key after all that have the prefix and n bytes more.
func past(prefix []byte, n int) []byte {
	return append(append(make([]byte, 0, len(prefix)+n+1), prefix...), bytes.Repeat([]byte{0xff}, n+1)...)
}

// splitWorkflowFacet is the inverse of workflowFacet.
func splitWorkflowFacet(facet []byte) (tenant, workflow string, ok bool) {
	closed := append(bytes.Clone(facet[1:]), make([]byte, closedSuffix)...)
	tenant, workflow, _, ok = splitClosedKey(closed)
	return tenant, workflow, ok
}

// indexListed adds the rows of the runs from the one after last on to the index, at most upgradeBatch of them.
func indexListed(v *view, last []byte) (next []byte, more bool, err error) {
	n := 0
	for k := range v.scan(bSpecs, nil, last) {
		if bytes.Equal(k, last) || len(k) != runLen {
			continue
		}
		if n++; n > upgradeBatch {
			return last, true, nil
		}
		last = bytes.Clone(k)
		spec, err := v.spec(history.RunID(last))
		if err != nil {
			continue // damage is for Verify to name: it must not keep the file closed
		}
		for _, row := range listedRows(&spec) {
			if err := v.bucket(bListed).Put(row, nil); err != nil {
				return nil, false, fmt.Errorf("run %s: %w", spec.ID, err)
			}
		}
	}
	return last, false, nil
}
