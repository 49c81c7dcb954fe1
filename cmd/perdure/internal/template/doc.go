// Package template fills the templates of a tool file: texts that hold expressions in ${…}.
//
//	${input.path}                     one expression: the value keeps its type
//	found ${steps.list.value.size()}  text around it: the value becomes text
//	${secret:TOKEN}                   a secret, known only where a step is executed
//	$${not a template}                the text ${not a template}
//
// An expression is CEL (Common Expression Language) over the variables input, steps, item, index, run, question and caller,
// with the functions of functions.go. It is deterministic: there is no clock, no randomness, no I/O, and maps are
// walked in key order. It is bounded: in the length and depth of its source, in the work and memory of one
// evaluation, and in the size of what a function makes.
//
// An Engine compiles; a Template or Expr it returns is immutable and may be used by several goroutines. A Scope
// gives the variables. Errors of compilation come as Errors, all of one template at once, with offsets; an error of
// evaluation is an *EvalError.
package template
