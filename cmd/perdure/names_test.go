package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/perdure/perdure/history"
)

// People leave out the occurrence where it is the first.
func TestPositionsAsPeopleTypeThem(t *testing.T) {
	for text, want := range map[string]history.Position{
		"list":               "list#0",
		"list#0":             "list#0",
		"list#2":             "list#2",
		"count[3]/count":     "count#0[3]/count#0",
		"count#0[3]/count#0": "count#0[3]/count#0",
		"count#1[a]/size":    "count#1[a]/size#0",
		"a[x#1]/b[y]/c#4":    "a#0[x#1]/b#0[y]/c#4",
	} {
		if got := position(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for key, want := range map[string]string{"review#0": "review", "ship#0[2]/review#1": "review", "bare": "bare"} {
		if got := questionName(key); got != want {
			t.Errorf("the name in %s is %s, want %s", key, got, want)
		}
	}
}

// A flag's help names its value in the words of the command, not by a type of Go's.
func TestFlagsNameTheirValues(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			if !f.Hidden && name != strings.ToUpper(name) {
				t.Errorf("%s --%s %s: put the value's name in the usage, in backquotes", c.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			if sub.Hidden {
				continue
			}
			walk(sub)
		}
	}
	walk((&app{}).root())
}
