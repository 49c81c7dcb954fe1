package history

import (
	"fmt"
	"strconv"
	"strings"
)

// Position names one durable operation of a run:
//
//	book#0                       the first "book" of the workflow function
//	book#1                       the second
//	ship#0[item-7]/book#0        the first "book" in branch "item-7" of the first construct "ship"
//
// That is: branch path / name # occurrence. The path is empty for the workflow function itself. Positions are
// unique within a generation of a run, and do not depend on the order in which branches happened to run.
type Position string

// Branch is the path of one branch: "" for the workflow function itself, else a construct's position and the
// branch's id in brackets, for example "ship#0[item-7]".
type Branch string

// MaxName bounds the bytes of an operation name, a branch id and a signal name.
const MaxName = 128

// CheckName refuses a name that could not be part of a position: it must have 1 to MaxName bytes of printable
// text without '/', '#', '[' and ']'. What names the thing in the error ("step", "branch id").
func CheckName(what, name string) error {
	switch {
	case name == "":
		return &NameError{What: what, Name: name, Reason: "is empty"}
	case len(name) > MaxName:
		return &NameError{What: what, Name: name[:16] + "…", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxName)}
	}
	for _, r := range name {
		switch {
		case r < 0x20, r == 0x7f, r == 0xfffd, r == '/', r == '#', r == '[', r == ']':
			return &NameError{What: what, Name: name, Reason: fmt.Sprintf("contains %q; control characters and / # [ ] are not allowed", r)}
		}
	}
	return nil
}

// NameError says why a name was refused.
type NameError struct {
	What   string // what was to be named: "step", "branch id", "signal"
	Name   string
	Reason string
}

func (e *NameError) Error() string { return fmt.Sprintf("%s name %q %s", e.What, e.Name, e.Reason) }

// At returns the position of the occurrence-th operation called name on the branch.
func (b Branch) At(name string, occurrence int) Position {
	s := name + "#" + strconv.Itoa(occurrence)
	if b == "" {
		return Position(s)
	}
	return Position(string(b) + "/" + s)
}

// Branch returns the path of branch id of the construct at p.
func (p Position) Branch(id string) Branch { return Branch(string(p) + "[" + id + "]") }

// Split returns the branch that p is on, the operation's name and its occurrence. It is the inverse of
// [Branch.At]; ok is false where p is not a position.
func (p Position) Split() (b Branch, name string, occurrence int, ok bool) {
	s := string(p)
	rest := s
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		b, rest = Branch(s[:i]), s[i+1:]
	}
	name, n, found := strings.Cut(rest, "#")
	if !found {
		return "", "", 0, false
	}
	occurrence, err := strconv.Atoi(n)
	if err != nil || occurrence < 0 || name == "" || b.At(name, occurrence) != p { // such as "a#01"
		return "", "", 0, false
	}
	return b, name, occurrence, true
}

// On returns the branch that p is on.
func (p Position) On() Branch {
	if i := strings.LastIndexByte(string(p), '/'); i >= 0 {
		return Branch(p[:i])
	}
	return ""
}

// Under reports whether the branch is inside the construct at p, at any depth.
func (b Branch) Under(p Position) bool { return strings.HasPrefix(string(b), string(p)+"[") }
