package template

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// Decode reads JSON into the values that a Scope holds. Numbers keep their kind: int64 or uint64 where they are
// integers of 64 bits, else float64.
func Decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return numbers(value)
}

func numbers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = numbers(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func number(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("the number %s is out of range", n)
	}
	return f, nil
}

// adapter hands Go values to CEL. It differs from CEL's own in one thing: a map is walked in the order of its keys,
// since Go's random order would make an expression give different results on replay.
type adapter struct {
	types.Adapter
}

func newAdapter() types.Adapter {
	return adapter{types.DefaultTypeAdapter}
}

func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return sortedMap{types.NewStringInterfaceMap(a, v)}
	case map[ref.Val]ref.Val:
		return sortedMap{types.NewRefValMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return a.Adapter.NativeToValue(value)
}

type sortedMap struct {
	traits.Mapper
}

func (m sortedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		return cmp.Or(cmp.Compare(a.Type().TypeName(), b.Type().TypeName()), cmp.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value())))
	})
	return types.NewDynamicList(types.DefaultTypeAdapter, keys).Iterator()
}

// AggregateSize lets the memory limit see through the wrapper.
func (m sortedMap) AggregateSize(sizer types.AggregateSizer) uint32 {
	if inner, ok := m.Mapper.(types.AggregateSizeVisitor); ok {
		return inner.AggregateSize(sizer)
	}
	return 1
}

// toNative turns CEL's result into a JSON value.
func toNative(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("is %v, which JSON cannot hold", f)
		}
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case *types.Optional:
		return nil, fmt.Errorf("may be missing; end it with .orValue(…)")
	case traits.Lister:
		return nativeList(v)
	case traits.Mapper:
		return nativeMap(v)
	}
	return nil, fmt.Errorf("is a %s, which JSON cannot hold", value.Type().TypeName())
}

func nativeList(list traits.Lister) (any, error) {
	out := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		value, err := toNative(it.Next())
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}

func nativeMap(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("has the key %v; JSON needs text keys", key.Value())
		}
		value, err := toNative(m.Get(key))
		if err != nil {
			return nil, err
		}
		out[string(name)] = value
	}
	return out, nil
}

// kindOf names a JSON value's type for messages.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, uint64, float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", value)
}

// sortLiterals makes the maps that an expression itself builds walk in key order too. CEL builds them without
// asking the adapter.
func sortLiterals(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if c, ok := i.(interpreter.InterpretableConstructor); ok && c.Type() == types.MapType {
		return sortedLiteral{i}, nil
	}
	return i, nil
}

type sortedLiteral struct {
	interpreter.InterpretableV2
}

func (l sortedLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return sorted(l.InterpretableV2.Exec(frame))
}

func (l sortedLiteral) Eval(vars interpreter.Activation) ref.Val {
	return sorted(l.InterpretableV2.Eval(vars))
}

func sorted(value ref.Val) ref.Val {
	if m, ok := value.(traits.Mapper); ok {
		return sortedMap{m}
	}
	return value
}
