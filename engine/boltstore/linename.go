package boltstore

import (
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure/history"
)

// lineName is a line's prefix, taken apart.
type lineName struct {
	workflow           int // length of the workflow's part
	queue, tenant, key string
	limit              int
}

// linePrefix names the line that a run stands in:
//
//	name length 1 | name | version4 | queue length 1 | queue | tenant length 2 | tenant | key length 2 | key | limit4
//
// key is the concurrency key, with its limit.
func linePrefix(s *history.Spec) []byte {
	b := workflowPrefix(history.WorkflowKey{Name: s.Workflow, Version: s.Version})
	b = append(append(b, byte(len(s.Queue))), s.Queue...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(s.Tenant))), s.Tenant...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(s.ConcurrencyKey))), s.ConcurrencyKey...)
	return binary.BigEndian.AppendUint32(b, uint32(s.ConcurrencyLimit))
}

// splitLine is the inverse of linePrefix; ok is false where prefix is none.
func splitLine(prefix string) (n lineName, ok bool) {
	rest := prefix
	take := func(count int) (part string) {
		if ok = ok && len(rest) >= count; ok {
			part, rest = rest[:count], rest[count:]
		}
		return part
	}
	number := func(width int) (v int) {
		for _, b := range []byte(take(width)) {
			v = v<<8 | int(b)
		}
		return v
	}
	ok = true
	take(number(1))
	take(4)
	n.workflow = len(prefix) - len(rest)
	n.queue = take(number(1))
	n.tenant = take(number(2))
	n.key = take(number(2))
	n.limit = number(4)
	return n, ok && rest == ""
}

func keyOfLine(prefix string) string {
	n, _ := splitLine(prefix)
	return n.key
}

// shareKey names a concurrency key of a tenant.
func shareKey(tenant, key string) string { return fmt.Sprintf("%d %s%s", len(tenant), tenant, key) }
