package schemafit_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/perdure/perdure/workflow/schemafit"
)

func resolve(t *testing.T, text string) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct{ name, schema, value, want string }{
		{"fits", `{"type":"object"}`, `{}`, ""},
		{"enum", `{"properties":{"level":{"type":"string","enum":["fast","best"]}}}`, `{"level":"medium"}`, `level: "medium" is not one of fast, best`},
		{"enum of odd words", `{"enum":["a b","",3,null]}`, `"c"`, `"c" is not one of "a b", "", 3, null`},
		{"enum, value like an error", `{"properties":{"a":{"enum":["x"]}}}`, `{"a":"validating root: type: x"}`, `a: "validating root: type: x" is not one of x`},
		{"type", `{"properties":{"n":{"type":"integer"}}}`, `{"n":"many"}`, `n: "many" is a string, want an integer`},
		{"type of a fraction", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1.5}`, `n: 1.5 is a number, want an integer`},
		{"type, value like an error", `{"type":"integer"}`, `"x has type \"null\", want \"array\""`, `"x has type \"null\", want \"array\"" is a string, want an integer`},
		{"types", `{"properties":{"n":{"type":["null","number"]}}}`, `{"n":{"a":1}}`, `n: is an object, want null or a number`},
		{"type of the whole", `{"type":"object"}`, `[1]`, `is an array, want an object`},
		{"null", `{"properties":{"n":{"type":"string"}}}`, `{"n":null}`, `n: is null, want a string`},
		{"const", `{"properties":{"v":{"const":1}}}`, `{"v":2}`, `v: 2 is not 1`},
		{"pattern", `{"properties":{"v":{"pattern":"^v\\d+$"}}}`, `{"v":"1"}`, `v: "1" does not match the pattern ^v\d+$`},
		{"minimum", `{"properties":{"n":{"minimum":10}}}`, `{"n":5}`, `n: 5 is less than 10`},
		{"maximum", `{"properties":{"n":{"maximum":0.5}}}`, `{"n":0.75}`, `n: 0.75 is more than 0.5`},
		{"exclusiveMinimum", `{"exclusiveMinimum":0}`, `0`, `0 is not more than 0`},
		{"exclusiveMaximum", `{"exclusiveMaximum":0}`, `0`, `0 is not less than 0`},
		{"multipleOf", `{"multipleOf":2}`, `3`, `3 is not a multiple of 2`},
		{"minLength", `{"properties":{"s":{"minLength":1}}}`, `{"s":""}`, `s: has 0 characters, want at least 1`},
		{"maxLength", `{"maxLength":2}`, `"a 7, fewer than 9"`, `has 17 characters, want at most 2`},
		{"minItems", `{"properties":{"l":{"minItems":2}}}`, `{"l":[1]}`, `l: has 1 items, want at least 2`},
		{"maxItems", `{"maxItems":1}`, `[1,2]`, `has 2 items, want at most 1`},
		{"uniqueItems", `{"uniqueItems":true}`, `[1,1]`, `items 0 and 1 are equal`},
		{"minProperties", `{"minProperties":1}`, `{}`, `has 0 members, want at least 1`},
		{"maxProperties", `{"maxProperties":0}`, `{"a":1}`, `has 1 members, want at most 0`},
		{"one missing", `{"required":["order"]}`, `{}`, `order: is missing`},
		{"missing within", `{"properties":{"a":{"required":["b"]}}}`, `{"a":{}}`, `a.b: is missing`},
		{"two missing", `{"required":["order","level"]}`, `{}`, `order, level are missing`},
		{"goes with", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `with a it needs b too`},
		{"unknown", `{"properties":{"a":{},"b":{}},"additionalProperties":false}`, `{"c":1}`, `c: is not known: there is a, b`},
		{"two unknown", `{"additionalProperties":false}`, `{"d":1,"c":1}`, `there is no c, d`},
		{"only item", `{"properties":{"l":{"items":{"type":"string"}}}}`, `{"l":[1]}`, `l[0]: 1 is an integer, want a string`},
		{"some item", `{"properties":{"l":{"items":{"type":"string"}}}}`, `{"l":["a",1]}`, `l[]: is an integer, want a string`},
		{"numbered item", `{"prefixItems":[{"type":"string"},{"properties":{"a":{"type":"string"}}}]}`, `["a",{"a":1}]`, `[1].a: 1 is an integer, want a string`},
		{"other member", `{"properties":{"m":{"additionalProperties":{"type":"string"}}}}`, `{"m":{"x":1}}`, `m.*: is an integer, want a string`},
		{"pattern member", `{"patternProperties":{"^x/":{"type":"string"}}}`, `{"x/a":1}`, `*: is an integer, want a string`},
		{"odd name", `{"properties":{"a/b~c":{"enum":[1]}}}`, `{"a/b~c":2}`, `a/b~c: 2 is not one of 1`},
		{"ref", `{"$defs":{"L":{"enum":["x"]}},"properties":{"a":{"$ref":"#/$defs/L"}}}`, `{"a":"y"}`, `a: "y" is not one of x`},
		{"recursive ref", `{"properties":{"n":{"$ref":"#"},"v":{"type":"string"}}}`, `{"n":{"n":{"v":1}}}`, `n.n.v: 1 is an integer, want a string`},
		{"allOf", `{"properties":{"a":{"allOf":[{},{"minimum":3}]}}}`, `{"a":2}`, `a: 2 is less than 3`},
		{"anyOf", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`, `a: 1 fits none of the forms that are allowed`},
		{"oneOf none", `{"oneOf":[{"type":"string"}]}`, `1`, `1 fits none of the forms that are allowed`},
		{"oneOf two", `{"oneOf":[{"type":"string"},{"minLength":1}]}`, `"a"`, `"a" fits more than one of the forms that are allowed`},
		{"not", `{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"b"}`, `a: "b" is not allowed`},
		{"a shape that is not known", `{"properties":{"l":{"contains":{"type":"string"},"minContains":2}}}`, `{"l":["a"]}`, `l: minContains: contains validated 1 items, less than 2`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var v any
			if err := json.Unmarshal([]byte(tc.value), &v); err != nil {
				t.Fatal(err)
			}
			err := schemafit.Check(resolve(t, tc.schema), v)
			var misfit *schemafit.Misfit
			switch {
			case tc.want == "" && err == nil:
			case !errors.As(err, &misfit):
				t.Fatalf("%v, want a *Misfit", err)
			case err.Error() != tc.want:
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
		})
	}
}

func TestUnmarshal(t *testing.T) {
	type inner struct {
		N  int8     `json:"n"`
		S  string   `json:"s"`
		L  []uint16 `json:"l"`
		F  float32  `json:"f"`
		B  bool     `json:"b"`
		In *inner   `json:"in"`
	}
	for _, tc := range []struct{ value, want string }{
		{`{"n":-128,"s":"3.0","l":[1,2.0,65535],"f":1.5,"b":true}`, ""},
		{`{"n":1.0,"in":{"n":1e2,"s":"\"3.0","l":[20e-1]}}`, ""},
		{`{"n":128}`, `n: 128 does not fit: want a whole number from -128 to 127`},
		{`{"n":1e30}`, `n: 1e30 does not fit: want a whole number from -128 to 127`},
		{`{"in":{"n":1.5}}`, `in.n: 1.5 does not fit: want a whole number from -128 to 127`},
		{`{"n":"1"}`, `n: is a string, want a whole number from -128 to 127`},
		{`{"n":true}`, `n: is a boolean, want a whole number from -128 to 127`},
		{`{"l":[1,-1]}`, `l: -1 does not fit: want a whole number from 0 to 65535`},
		{`{"s":3.0}`, `s: is a number, want a string`},
		{`{"in":[]}`, `in: is an array, want an object`},
		{`{"l":{}}`, `l: is an object, want an array`},
		{`{"f":1e39}`, `f: number 1e39 does not fit`},
		{`7`, `is a number, want an object`},
	} {
		var v inner
		err := schemafit.Unmarshal([]byte(tc.value), &v)
		var misfit *schemafit.Misfit
		switch {
		case tc.want == "" && err == nil:
		case !errors.As(err, &misfit) || err.Error() != tc.want:
			t.Errorf("%s:\n got %v\nwant %s", tc.value, err, tc.want)
		}
	}
	var v inner
	if err := schemafit.Unmarshal([]byte(`{"n":`), &v); err == nil {
		t.Error("half a value is decoded")
	}
}

func TestSpell(t *testing.T) {
	const schema = `{"$defs":{"I":{"type":"integer"},"R":{"$ref":"#/$defs/R"}},"type":"object","additionalProperties":{"type":"integer"},"properties":{
		"n":{"type":"integer"},"f":{"type":"number"},"p":{"type":["null","integer"]},"l":{"items":{"type":"integer"}},"t":{"prefixItems":[{"type":"integer"}]},
		"o":{"properties":{"n":{"type":"integer"}}},"r":{"$ref":"#/$defs/I"},"c":{"$ref":"#/$defs/R"},"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`
	for value, want := range map[string]string{
		`{"n":3.0,"f":3.0}`:                       `{"f":3.0,"n":3}`,
		`{"n":1e2,"p":-20e-1,"l":[0.0,-0.0,1.0]}`: `{"l":[0,0,1],"n":100,"p":-2}`,
		`{"t":[1.0,1.0],"o":{"n":0.5e1}}`:         `{"o":{"n":5},"t":[1,1.0]}`,
		`{"r":1.0,"a":1.0,"x":1.0,"c":1.0}`:       `{"a":1,"c":1.0,"r":1,"x":1}`,
		`{"n":9223372036854775807.0}`:             `{"n":9223372036854775807}`,
		`{"n":0.00012e5}`:                         `{"n":12}`,
		// As they are: fractions, what no integer holds, and what is no JSON.
		`{ "n": 3, "f":1e2 }`:  `{ "n": 3, "f":1e2 }`,
		`{"n":1.5}`:            `{"n":1.5}`,
		`{"n":1e21}`:           `{"n":1e21}`,
		`{"n":1e999999999999}`: `{"n":1e999999999999}`,
		`{"n":1e-99999999}`:    `{"n":1e-99999999}`,
		`{"n":3.`:              `{"n":3.`,
	} {
		if got := schemafit.Spell(resolve(t, schema).Schema(), []byte(value)); string(got) != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}
