package schemafit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxDigits bounds the whole numbers that are spelled out: an integer of 64 bits has no more.
const maxDigits = 20

// spellAll returns valid JSON with each whole number of up to maxDigits digits as digits only: 3.0 as 3, 25e1 as 250.
// Everything else stays as it is.
func spellAll(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		end := i + 1
		switch c := data[i]; {
		case c == '"':
			for end < len(data) && data[end] != '"' {
				if data[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(data))
		case c == '-' || c >= '0' && c <= '9':
			for end < len(data) && strings.IndexByte("0123456789+-.eE", data[end]) >= 0 {
				end++
			}
			out = append(out, spell(string(data[i:end]))...)
			i = end
			continue
		}
		out = append(out, data[i:end]...)
		i = end
	}
	return out
}

// spell returns a JSON number as digits only where it is whole and not too long, else as it is. It counts digits, and computes
// nothing: an exponent can be of any size.
func spell(number string) string {
	if !strings.ContainsAny(number, ".eE") && number != "-0" {
		return number
	}
	sign := ""
	mantissa, negative := strings.CutPrefix(number, "-")
	if negative {
		sign = "-"
	}
	exponent := 0
	if at := strings.IndexAny(mantissa, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(mantissa[at+1:]); err != nil {
			return number
		}
		mantissa = mantissa[:at]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	if digits == "" {
		return "0" // without a sign, which an unsigned type does not take
	}
	point := len(whole) + exponent // how many of the digits, with zeros behind them, stand before the point
	first := len(digits) - len(strings.TrimLeft(digits, "0"))
	if exponent > maxDigits || point < len(digits) || point-first > maxDigits {
		return number
	}
	return sign + digits[first:] + strings.Repeat("0", point-len(digits))
}

// Spell returns JSON in which the numbers that the schema calls integers are spelled as Go reads them: 3.0 as 3, 3e2 as 300.
// Where nothing is to be changed, or data is not JSON, it returns data. A reference is followed where it leads into $defs.
func Spell(schema *jsonschema.Schema, data []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return data
	}
	s := speller{defs: schema.Defs}
	v = s.spell(schema, v, 0)
	if !s.changed {
		return data
	}
	spelled, err := json.Marshal(v)
	if err != nil {
		return data
	}
	return spelled
}

type speller struct {
	defs    map[string]*jsonschema.Schema
	changed bool
}

// maxReferences bounds the schemas that are followed for one value: references can lead in a circle.
const maxReferences = 16

func (s *speller) spell(schema *jsonschema.Schema, v any, followed int) any {
	if schema == nil || followed > maxReferences {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			of, known := schema.Properties[name]
			if !known {
				of = schema.AdditionalProperties
			}
			v[name] = s.spell(of, member, 0)
		}
	case []any:
		for i, item := range v {
			of := schema.Items
			if i < len(schema.PrefixItems) {
				of = schema.PrefixItems[i]
			}
			v[i] = s.spell(of, item, 0)
		}
	case json.Number:
		if schema.Type == "integer" || slices.Contains(schema.Types, "integer") && !slices.Contains(schema.Types, "number") {
			if digits := json.Number(spell(v.String())); digits != v {
				s.changed = true
				return digits
			}
		}
	}
	for _, of := range slices.Concat(schema.AllOf, schema.AnyOf, schema.OneOf) {
		v = s.spell(of, v, followed+1)
	}
	if name, ok := strings.CutPrefix(schema.Ref, "#/$defs/"); ok {
		v = s.spell(s.defs[name], v, followed+1)
	}
	return v
}
