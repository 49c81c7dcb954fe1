package template

import (
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Ref is one reading of a variable: for steps.scan.value.size() it is steps with the path scan, value.
type Ref struct {
	Variable string
	// Path holds the fields that follow as far as they are fixed in the source.
	Path []string
	// Sure counts the leading fields of Path that must exist; the rest is behind has() or .? and may be missing.
	Sure int
	// Offset is the variable's place in the template, in bytes.
	Offset int
}

func findRefs(source string, compiled *cel.Ast) []Ref {
	f := finder{source: source, info: compiled.NativeRep().SourceInfo()}
	f.walk(compiled.NativeRep().Expr(), nil)
	return f.refs
}

type finder struct {
	source string
	info   *ast.SourceInfo
	refs   []Ref
}

// walk collects the references below e. bound holds the variables of enclosing comprehensions, which hide ours.
func (f *finder) walk(e ast.Expr, bound []string) {
	if found, ok := f.chain(e); ok {
		for _, name := range bound {
			if name == found.Variable {
				return
			}
		}
		f.refs = append(f.refs, found)
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			f.walk(call.Target(), bound)
		}
		for _, arg := range call.Args() {
			f.walk(arg, bound)
		}
	case ast.SelectKind:
		f.walk(e.AsSelect().Operand(), bound)
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			f.walk(element, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f.walk(entry.AsMapEntry().Key(), bound)
			f.walk(entry.AsMapEntry().Value(), bound)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		f.walk(c.IterRange(), bound)
		f.walk(c.AccuInit(), bound)
		inner := append(append([]string{}, bound...), c.IterVar(), c.IterVar2(), c.AccuVar())
		f.walk(c.LoopCondition(), inner)
		f.walk(c.LoopStep(), inner)
		f.walk(c.Result(), inner)
	}
}

// chain reads a variable followed by fixed fields.
func (f *finder) chain(e ast.Expr) (Ref, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return Ref{Variable: e.AsIdent(), Offset: f.offset(e)}, true
	case ast.SelectKind:
		s := e.AsSelect()
		return f.extend(s.Operand(), s.FieldName(), !s.IsTestOnly())
	case ast.CallKind:
		call := e.AsCall()
		if len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return Ref{}, false
		}
		field, ok := call.Args()[1].AsLiteral().(types.String)
		if !ok {
			return Ref{}, false
		}
		switch call.FunctionName() {
		case operators.Index:
			return f.extend(call.Args()[0], string(field), true)
		case operators.OptSelect, operators.OptIndex:
			return f.extend(call.Args()[0], string(field), false)
		}
	}
	return Ref{}, false
}

func (f *finder) extend(operand ast.Expr, field string, sure bool) (Ref, bool) {
	r, ok := f.chain(operand)
	if !ok {
		return r, false
	}
	if sure && r.Sure == len(r.Path) {
		r.Sure++
	}
	r.Path = append(r.Path, field)
	return r, true
}

func (f *finder) offset(e ast.Expr) int {
	r, ok := f.info.GetOffsetRange(e.ID())
	if !ok {
		return 0
	}
	offset := 0
	for points := r.Start; points > 0 && offset < len(f.source); points-- {
		_, size := utf8.DecodeRuneInString(f.source[offset:])
		offset += size
	}
	return offset
}
