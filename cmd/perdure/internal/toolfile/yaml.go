package toolfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of the text. The YAML parser takes time and stack that grow with nesting, so nesting is counted first.
const (
	maxFile    = 1 << 20
	maxNesting = 100
)

type kind int

const (
	null kind = iota
	boolean
	integer
	float
	text
	list
	object
)

func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "a number", "a text", "a list", "a mapping"}[k]
}

// node is a YAML value that knows its place. Exactly the fields of its kind are set.
type node struct {
	kind   kind
	line   int
	column int
	value  any    // null, boolean, integer (int64 or uint64), float, text
	source string // a scalar as it is written
	quoted bool   // in quotes, or a block
	items  []*node
	fields []field
}

type field struct {
	key   *node // always a text
	value *node
}

// get returns a field's value, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key.value == key {
			return f.value
		}
	}
	return nil
}

// encode writes the value as JSON, fields in the order of the file.
func (n *node) encode() json.RawMessage {
	var out bytes.Buffer
	n.encodeTo(&out)
	return out.Bytes()
}

func (n *node) encodeTo(out *bytes.Buffer) {
	switch n.kind {
	case list:
		out.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				out.WriteByte(',')
			}
			item.encodeTo(out)
		}
		out.WriteByte(']')
	case object:
		out.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(encodeScalar(f.key.value))
			out.WriteByte(':')
			f.value.encodeTo(out)
		}
		out.WriteByte('}')
	default:
		out.Write(encodeScalar(n.value))
	}
}

func encodeScalar(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("toolfile: a YAML scalar of type %T cannot be JSON: %v", value, err)) // converter.scalar made it
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// source is the text of a file with the problems found in it.
type source struct {
	name     string
	lines    []string
	problems Problems
}

func (s *source) report(line, column int, where, message, hint string) {
	s.problems = append(s.problems, Problem{
		File: s.name, Line: line, Column: column, Where: where, Message: message, Hint: hint,
	})
}

// at reports a mistake at a node.
func (s *source) at(n *node, where, message, hint string) {
	s.report(n.line, n.column, where, message, hint)
}

// parse reads the YAML text. It returns nil where problems make the rest senseless.
func (s *source) parse(data []byte) (root *node) {
	if len(data) > maxFile {
		s.report(1, 1, "", fmt.Sprintf("the file has %d bytes", len(data)), fmt.Sprintf("at most %d are read", maxFile))
		return nil
	}
	if !utf8.Valid(data) {
		line, column := invalidAt(data)
		s.report(line, column, "", "not UTF-8 text", "save the file as UTF-8")
		return nil
	}
	s.lines = strings.Split(string(data), "\n")
	if line, ok := s.tooDeep(); ok {
		s.report(line, 1, "", "nested too deeply", fmt.Sprintf("at most %d levels are read", maxNesting))
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			s.report(1, 1, "", fmt.Sprintf("the YAML parser gave up: %v", r), "look for an unusual construct, and quote it")
			root = nil
		}
	}()
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntax(err)
		return nil
	}
	return s.document(file)
}

func (s *source) document(file *ast.File) *node {
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			tk := doc.Body.GetToken()
			s.report(tk.Position.Line, 1, "", "a second YAML document", "put all tools under one tools:")
			return root
		}
		c := converter{s}
		root = c.convert(doc.Body, 0)
	}
	if root == nil {
		s.report(1, 1, "", "the file is empty", "it needs tools:")
	}
	return root
}

func invalidAt(data []byte) (line, column int) {
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return line, column
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		data = data[size:]
	}
	return line, column
}

// tooDeep counts brackets, and the dashes and tags that open levels on one line. It counts those in texts and
// comments too; no sensible file comes near the bound.
func (s *source) tooDeep() (line int, deep bool) {
	open := 0
	for i, text := range s.lines {
		open = max(0, open+strings.Count(text, "[")+strings.Count(text, "{")-strings.Count(text, "]")-strings.Count(text, "}"))
		opened := strings.Count(text, "[") + strings.Count(text, "{")
		markers := 0
		for _, word := range strings.Fields(text) {
			if word != "-" && word != "?" && word != ":" && word[0] != '!' && word[0] != '&' {
				break
			}
			markers++
		}
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if open > maxNesting || opened > 10*maxNesting || markers > maxNesting || indent > 10*maxNesting {
			return i + 1, true
		}
	}
	return 0, false
}

// syntax reports the parser's error. The parser stops at the first.
func (s *source) syntax(err error) {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		s.report(1, 1, "", "not YAML: "+message, "")
		return
	}
	position := syntax.Token.Position
	hint := ""
	if line := s.line(position.Line); strings.Contains(line, "${") {
		hint = `put a text that holds ${…} in quotes when it stands in [ ] or { }, or when it holds ": "`
	} else if strings.Contains(line, "\t") {
		hint = "indent with spaces, not tabs"
	} else if strings.HasPrefix(syntax.Message, "mapping value is not allowed") {
		hint = `put a text that holds ": " in quotes`
	} else if strings.HasPrefix(syntax.Message, "value is not allowed") {
		hint = "indent it as far as its neighbours"
	}
	s.report(position.Line, position.Column, "", "not YAML: "+syntax.Message, hint)
}

func (s *source) line(number int) string {
	if number < 1 || number > len(s.lines) {
		return ""
	}
	return strings.TrimSuffix(s.lines[number-1], "\r")
}

// inside finds the place of an offset in a text node. Where escapes or folding make it uncertain, it is the node's own.
func (s *source) inside(n *node, offset int) (line, column int) {
	value, ok := n.value.(string)
	if !ok || offset > len(value) {
		return n.line, n.column
	}
	if strings.HasPrefix(n.source, "|") {
		return s.insideBlock(n, value, offset)
	}
	written := []rune(s.line(n.line))
	start := n.column - 1
	if n.quoted {
		start++
	}
	if start < 0 || start > len(written) || !strings.HasPrefix(string(written[start:]), value[:offset]) {
		return n.line, n.column
	}
	return n.line, start + utf8.RuneCountInString(value[:offset]) + 1
}

func (s *source) insideBlock(n *node, value string, offset int) (line, column int) {
	before := value[:offset]
	line = n.line + 1 + strings.Count(before, "\n")
	start := strings.LastIndexByte(before, '\n') + 1
	rest, _, _ := strings.Cut(value[start:], "\n")
	indent := strings.Index(s.line(line), rest)
	if indent < 0 {
		return n.line, n.column
	}
	return line, utf8.RuneCountInString(s.line(line)[:indent]) + utf8.RuneCountInString(value[start:offset]) + 1
}

// converter turns the parser's tree into nodes. What has no place in a tool file (anchors, aliases, tags, merge keys,
// duplicate keys) is reported here.
type converter struct {
	*source
}

func (c converter) convert(n ast.Node, depth int) *node {
	if n == nil {
		return &node{kind: null}
	}
	position := n.GetToken().Position
	out := &node{line: position.Line, column: position.Column, source: n.GetToken().Value}
	if depth > maxNesting {
		c.at(out, "", "nested too deeply", fmt.Sprintf("at most %d levels are read", maxNesting))
		return out
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		c.mapping(out, v.Values, depth)
	case *ast.MappingValueNode:
		c.mapping(out, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range v.Values {
			out.items = append(out.items, c.convert(item, depth+1))
		}
	case *ast.AnchorNode:
		c.at(out, "", "anchors are not supported", "write the value where it is needed")
		return c.convert(v.Value, depth+1)
	case *ast.AliasNode:
		c.at(out, "", "aliases are not supported", "write the value where it is needed")
	case *ast.TagNode:
		c.at(out, "", fmt.Sprintf("the tag %s is not supported", v.Start.Value), "write the value without it")
		return c.convert(v.Value, depth+1)
	default:
		c.scalar(out, n)
	}
	return out
}

func (c converter) mapping(out *node, values []*ast.MappingValueNode, depth int) {
	out.kind = object
	for i, entry := range values {
		key := c.key(entry.Key)
		if i == 0 {
			out.line, out.column = key.line, key.column
		}
		if key.kind != text {
			continue
		}
		if out.get(key.value.(string)) != nil {
			c.at(key, "", fmt.Sprintf("%s is given twice", key.value), "keep one of them")
			continue
		}
		value := c.convert(entry.Value, depth+1)
		if value.line == 0 || value.kind == null {
			value.line, value.column = key.line, key.column
		}
		out.fields = append(out.fields, field{key, value})
	}
}

// key reads a mapping's key as text, whatever it looks like: 200, true.
func (c converter) key(n ast.MapKeyNode) *node {
	position := n.GetToken().Position
	out := &node{kind: text, line: position.Line, column: position.Column, source: n.GetToken().Value}
	switch v := n.(type) {
	case *ast.StringNode:
		out.value = v.Value
	case *ast.MergeKeyNode:
		out.kind = null
		c.at(out, "", "merge keys are not supported", "write the fields where they are needed")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		out.value = n.GetToken().Value
	default:
		out.kind = null
		c.at(out, "", "a key must be a plain text", "")
	}
	return out
}

func (c converter) scalar(out *node, n ast.Node) {
	switch v := n.(type) {
	case *ast.NullNode:
		out.kind = null
	case *ast.BoolNode:
		out.kind, out.value = boolean, v.Value
	case *ast.IntegerNode:
		out.kind, out.value = integer, v.Value
	case *ast.FloatNode:
		out.kind, out.value = float, v.Value
		if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
			c.at(out, "", "not a finite number", "")
			out.value = 0.0
		}
	case *ast.StringNode:
		out.kind, out.value = text, v.Value
		out.quoted = v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		out.kind, out.value, out.quoted = text, v.Value.Value, true
	default:
		c.at(out, "", "this kind of YAML value is not supported", "write a text, a number, true, false, a list or a mapping")
	}
}
