package schemafit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Decode decodes JSON for [Check]: as encoding/json does into an any, but that a whole number of 64 bits keeps its exact value,
// as an int64 or a uint64, where a float64 would round it. A fraction that a float64 would make whole is refused.
func Decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("there is more than one value")
	}
	return exact(v)
}

func exact(v any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name], err = exact(member); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = exact(item); err != nil {
				return nil, err
			}
		}
	case json.Number:
		text := spell(v.String())
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
		n, err := v.Float64()
		// A fraction that a float64 rounds to a whole number would pass for an integer.
		if err != nil || n == math.Trunc(n) && math.Abs(n) <= 1<<63 {
			return nil, fmt.Errorf("the number %.40s is out of range, or has too many digits", v)
		}
		return n, nil
	}
	return v, nil
}

// Unmarshal decodes JSON into a Go value as encoding/json does, but that a Go integer takes every spelling of a whole number:
// 3.0 and 3e2 are integers for JSON Schema. What does not fit the Go type is a *Misfit, which says what would.
func Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var misfit *json.UnmarshalTypeError
	if !errors.As(err, &misfit) {
		return err
	}
	if spelled := spellAll(data); !bytes.Equal(spelled, data) {
		if err = json.Unmarshal(spelled, v); !errors.As(err, &misfit) {
			return err
		}
	}
	return &Misfit{Field: misfit.Field, Reason: mismatch(misfit)}
}

// mismatch says in the words of JSON what a Go type does not take.
func mismatch(e *json.UnmarshalTypeError) string {
	number, isNumber := strings.CutPrefix(e.Value, "number ")
	if low, high, ok := integerRange(e.Type); ok {
		want := "want a whole number from " + low + " to " + high
		if isNumber {
			return number + " does not fit: " + want
		}
		return "is " + kind(jsonKind(e.Value)) + ", " + want
	}
	if want := goKind(e.Type); want != "" && (!isNumber || want != "number") {
		return "is " + kind(jsonKind(e.Value)) + ", want " + kind(want)
	}
	return e.Value + " does not fit"
}

// jsonKind is the JSON type in encoding/json's description of a value.
func jsonKind(value string) string {
	word, _, _ := strings.Cut(value, " ")
	if word == "bool" {
		return "boolean"
	}
	return word
}

// integerRange returns the least and the greatest value of a Go integer type.
func integerRange(t reflect.Type) (low, high string, ok bool) {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(1)<<(t.Bits()-1) - 1
		return strconv.FormatInt(-most-1, 10), strconv.FormatInt(most, 10), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "0", strconv.FormatUint(^uint64(0)>>(64-t.Bits()), 10), true
	}
	return "", "", false
}

// goKind is the JSON type that a Go type is decoded from; "" where there is more to it.
func goKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	}
	return ""
}
