package schemafit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// place is a part of a value, and the schema that it was held against.
type place struct {
	schema *jsonschema.Resolved // the whole
	path   string               // of the part, as a JSON Pointer; "" is the whole schema
	field  string
	value  any
	known  bool // whether value is the part: which item or other member it was, the library does not say
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// descend follows one step of a schema's path after the other into the value.
func (p *place) descend(tokens []string) {
	for len(tokens) > 0 {
		keyword, rest := tokens[0], tokens[1:]
		switch keyword {
		case "properties":
			if len(rest) > 0 {
				p.member(unescape.Replace(rest[0]))
			}
			rest = rest[min(1, len(rest)):]
		case "items", "prefixItems":
			index := -1
			if len(rest) > 0 {
				if i, err := strconv.Atoi(rest[0]); err == nil {
					index, rest = i, rest[1:]
				}
			}
			p.item(index)
		case "additionalItems", "unevaluatedItems":
			p.item(-1)
		case "additionalProperties", "unevaluatedProperties":
			p.otherMember()
		case "patternProperties":
			p.otherMember()
			rest = rest[min(1, len(rest)):]
		case "propertyNames":
			p.known = false // a name, and not the value
		case "allOf", "anyOf", "oneOf", "$defs", "definitions", "dependentSchemas", "dependencies":
			rest = rest[min(1, len(rest)):] // the same value
		}
		tokens = rest
	}
}

func (p *place) member(name string) {
	p.field = join(p.field, name)
	object, _ := p.value.(map[string]any)
	value, has := object[name]
	p.value, p.known = value, p.known && has
}

func (p *place) otherMember() {
	p.field = join(p.field, "*")
	p.value, p.known = nil, false
}

// item goes to an item of a list; -1 is one that is not known.
func (p *place) item(index int) {
	list, _ := p.value.([]any)
	if index < 0 && len(list) == 1 {
		index = 0
	}
	if index < 0 {
		p.field += "[]"
		p.value, p.known = nil, false
		return
	}
	p.field += "[" + strconv.Itoa(index) + "]"
	if p.known = p.known && index < len(list); p.known {
		p.value = list[index]
	}
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// part returns the part of the schema that the path names; nil where the path leads nowhere.
func (p *place) part() map[string]any {
	b, err := json.Marshal(p.schema.Schema())
	if err != nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var at any
	if dec.Decode(&at) != nil {
		return nil
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(p.path, "/"), "/") {
		if p.path == "" {
			break
		}
		switch v := at.(type) {
		case map[string]any:
			at = v[unescape.Replace(token)]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		}
	}
	part, _ := at.(map[string]any)
	return part
}
