package template

import "testing"

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	e := newEngine(b)
	for b.Loop() {
		if _, err := e.Parse("found ${steps.list.value.filter(f, f.endsWith('.go')).size()} in ${input.path}"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValue(b *testing.B) {
	e, scope := newEngine(b), testScope(b)
	tmpl, err := e.Parse("${steps.list.value.filter(f, f.endsWith('.go')).size()}")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tmpl.Value(scope, nil); err != nil {
			b.Fatal(err)
		}
	}
}
