package history_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure/history"
)

func TestPositionsSplitAsTheyWereMade(t *testing.T) {
	for _, c := range []struct {
		branch history.Branch
		name   string
		n      int
		want   history.Position
	}{
		{"", "book", 0, "book#0"},
		{"", "book", 12, "book#12"},
		{"ship#0[item-7]", "book", 1, "ship#0[item-7]/book#1"},
		{"ship#0[a]/pay#2[b c]", "größe", 0, "ship#0[a]/pay#2[b c]/größe#0"},
	} {
		p := c.branch.At(c.name, c.n)
		if p != c.want {
			t.Errorf("position is %q, want %q", p, c.want)
		}
		branch, name, n, ok := p.Split()
		if !ok || branch != c.branch || name != c.name || n != c.n {
			t.Errorf("%q splits into %q, %q, %d, %t", p, branch, name, n, ok)
		}
		if p.On() != c.branch {
			t.Errorf("%q is on %q, want %q", p, p.On(), c.branch)
		}
	}
	for _, p := range []history.Position{"", "book", "book#", "book#x", "book#-1", "#0", "a/#0"} {
		if _, _, _, ok := p.Split(); ok {
			t.Errorf("%q is taken for a position", p)
		}
	}
}

func TestBranchesAreUnderTheirConstruct(t *testing.T) {
	p := history.Position("ship#0")
	inner := p.Branch("a").At("pay", 0).Branch("b")
	for b, want := range map[history.Branch]bool{p.Branch("a"): true, inner: true, "ship#01[a]": false, "": false, "x#0[ship#0]": false} {
		if got := b.Under(p); got != want {
			t.Errorf("%q under %q is %t, want %t", b, p, got, want)
		}
	}
}

func TestNamesThatCouldNotBePartOfAPositionAreRefused(t *testing.T) {
	for _, name := range []string{"", "a/b", "a#b", "a[b", "a]b", "a\x00b", "a\nb", "a\x7f", "a\xff", strings.Repeat("x", history.MaxName+1)} {
		var e *history.NameError
		if err := history.CheckName("step", name); !errors.As(err, &e) || e.What != "step" {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "book flight", "größe", "a.b-c_d", strings.Repeat("x", history.MaxName)} {
		if err := history.CheckName("step", name); err != nil {
			t.Error(err)
		}
	}
}

func TestTokensSortByAge(t *testing.T) {
	order := []history.Token{{}, {Epoch: 1}, {Epoch: 1, Counter: 2}, {Epoch: 1, Counter: 10}, {Epoch: 2}, {Epoch: 1 << 40, Counter: 1}}
	for i, a := range order {
		for j, b := range order {
			if got := a.Compare(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s compared with %s is %d", a, b, got)
			}
			if (a.String() < b.String()) != (i < j) {
				t.Errorf("the text of %s does not sort as that of %s", a, b)
			}
		}
	}
}

func TestStatusesAndDigestsReadTheirOwnText(t *testing.T) {
	for _, s := range history.Statuses() {
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back history.Status
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s became %s (%v)", s, back, err)
		}
	}
	var s history.Status
	if err := s.UnmarshalText([]byte("sleeping")); err == nil {
		t.Error("an unknown status was read")
	}
	d := history.Sum([]byte("x"))
	var back history.Digest
	text, err := d.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := back.UnmarshalText(text); err != nil || back != d {
		t.Errorf("%s became %s (%v)", d, back, err)
	}
	for _, bad := range []string{"", "ab", strings.Repeat("zz", 32), strings.Repeat("a", 63)} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as a digest", bad)
		}
	}
}
