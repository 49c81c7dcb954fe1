// Package toolfile reads a file of tools.
//
// A File holds Tools, each an ordered list of durable Steps. Load reads YAML in three passes: yaml.go turns the text
// into nodes that know their place; decode*.go turn nodes into the model of model.go, with every default filled in;
// check*.go prove what spans more than one value: names, references, templates, secrets. All mistakes are collected;
// Load returns them together as Problems, in the order of the file.
//
// A loaded Tool is normalized: Canonical gives its one JSON form, Digest the name of that form. An engine stores the
// form under the digest and pins it to each run, so that running work finishes on what it started with.
// ParseCanonical brings it back, without the file, and proves it again.
//
// A File and its Tools are immutable after loading and may be used by several goroutines.
package toolfile
