package template

import (
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// functions adds to CEL's standard library what tools need to shape text and lists. None makes more than maxText
// bytes: each checks the size before it builds the result.
//
//	text.trim() .lower() .upper() .base() .lines() .split(sep) .replace(old, new) .truncate(characters)
//	list.join(sep) .take(n) .sort() .unique() .flatten()
//	json(any) parse_json(text)
func functions() []cel.EnvOption {
	text, integer, dyn := cel.StringType, cel.IntType, cel.DynType
	texts, list := cel.ListType(cel.StringType), cel.ListType(cel.DynType)
	return []cel.EnvOption{
		member("trim", text, text, nil, onText(func(s string) ref.Val { return types.String(strings.TrimSpace(s)) })),
		member("lower", text, text, nil, onText(func(s string) ref.Val { return types.String(strings.ToLower(s)) })),
		member("upper", text, text, nil, onText(func(s string) ref.Val { return types.String(strings.ToUpper(s)) })),
		member("base", text, text, nil, onText(func(s string) ref.Val { return types.String(path.Base(strings.ReplaceAll(s, `\`, "/"))) })),
		member("lines", text, texts, nil, onText(func(s string) ref.Val { return textList(SplitLines(s)) })),
		member("split", text, texts, []*cel.Type{text}, split),
		member("replace", text, text, []*cel.Type{text, text}, replace),
		member("truncate", text, text, []*cel.Type{integer}, truncate),
		member("join", list, text, []*cel.Type{text}, join),
		member("take", list, list, []*cel.Type{integer}, take),
		member("sort", list, list, nil, sortList),
		member("unique", list, list, nil, unique),
		member("flatten", list, list, nil, flatten),
		global("json", text, dyn, toJSON),
		global("parse_json", dyn, text, parseJSON),
	}
}

type function func(args ...ref.Val) ref.Val

func member(name string, receiver, result *cel.Type, args []*cel.Type, f function) cel.EnvOption {
	all := append([]*cel.Type{receiver}, args...)
	return cel.Function(name, cel.MemberOverload("perdure_"+name, all, result, cel.FunctionBinding(func(args ...ref.Val) ref.Val { return f(args...) })))
}

func global(name string, result, arg *cel.Type, f function) cel.EnvOption {
	return cel.Function(name, cel.Overload("perdure_"+name, []*cel.Type{arg}, result,
		cel.UnaryBinding(func(v ref.Val) ref.Val { return f(v) })))
}

func onText(f func(string) ref.Val) function {
	return func(args ...ref.Val) ref.Val { return f(string(args[0].(types.String))) }
}

// SplitLines cuts a text at its line ends; a last line end begins no further line.
func SplitLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

func textList(texts []string) ref.Val {
	return types.NewStringList(types.DefaultTypeAdapter, texts)
}

func split(args ...ref.Val) ref.Val {
	return textList(strings.Split(string(args[0].(types.String)), string(args[1].(types.String))))
}

func replace(args ...ref.Val) ref.Val {
	s, old, fresh := string(args[0].(types.String)), string(args[1].(types.String)), string(args[2].(types.String))
	if len(s)+strings.Count(s, old)*max(0, len(fresh)-len(old)) > maxText {
		return types.WrapErr(errTooLarge)
	}
	return types.String(strings.ReplaceAll(s, old, fresh))
}

// truncate cuts after n characters and marks the cut with an ellipsis.
func truncate(args ...ref.Val) ref.Val {
	s, n := string(args[0].(types.String)), int64(args[1].(types.Int))
	if n < 0 {
		return types.NewErr("truncate needs a number of at least 0")
	}
	if int64(utf8.RuneCountInString(s)) <= n {
		return args[0]
	}
	return types.String(string([]rune(s)[:n]) + "…")
}

func elements(list ref.Val) []ref.Val {
	var out []ref.Val
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return out
}

func newList(values []ref.Val) ref.Val {
	return types.NewRefValList(newAdapter(), values)
}

func join(args ...ref.Val) ref.Val {
	separator := string(args[1].(types.String))
	var texts []string
	size := 0
	for _, element := range elements(args[0]) {
		native, err := toNative(element)
		if err != nil {
			return types.WrapErr(err)
		}
		text, err := Text(native)
		if err != nil {
			return types.NewErr("join needs texts or numbers, and found %s", kindOf(native))
		}
		if size += len(text) + len(separator); size > maxText {
			return types.WrapErr(errTooLarge)
		}
		texts = append(texts, text)
	}
	return types.String(strings.Join(texts, separator))
}

func take(args ...ref.Val) ref.Val {
	n := int64(args[1].(types.Int))
	if n < 0 {
		return types.NewErr("take needs a number of at least 0")
	}
	all := elements(args[0])
	return newList(all[:min(n, int64(len(all)))])
}

func sortList(args ...ref.Val) ref.Val {
	all := elements(args[0])
	var failure ref.Val
	slices.SortStableFunc(all, func(a, b ref.Val) int {
		comparer, ok := a.(traits.Comparer)
		if !ok {
			failure = types.NewErr("sort needs texts or numbers")
			return 0
		}
		order, ok := comparer.Compare(b).(types.Int)
		if !ok {
			failure = types.NewErr("sort needs elements of one type")
			return 0
		}
		return int(order)
	})
	if failure != nil {
		return failure
	}
	return newList(all)
}

func unique(args ...ref.Val) ref.Val {
	var kept []ref.Val
	seen := map[string]bool{}
	for _, element := range elements(args[0]) {
		native, err := toNative(element)
		if err != nil {
			return types.WrapErr(err)
		}
		key, err := marshal(native)
		if err != nil {
			return types.WrapErr(err)
		}
		if !seen[key] {
			seen[key] = true
			kept = append(kept, element)
		}
	}
	return newList(kept)
}

// flatten joins a list of lists into one; other elements stay as they are.
func flatten(args ...ref.Val) ref.Val {
	var out []ref.Val
	for _, element := range elements(args[0]) {
		if _, ok := element.(traits.Lister); ok {
			out = append(out, elements(element)...)
		} else {
			out = append(out, element)
		}
	}
	return newList(out)
}

func toJSON(args ...ref.Val) ref.Val {
	native, err := toNative(args[0])
	if err != nil {
		return types.WrapErr(err)
	}
	text, err := marshal(native)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(text)
}

func parseJSON(args ...ref.Val) ref.Val {
	value, err := Decode([]byte(args[0].(types.String)))
	if err != nil {
		return types.NewErr("parse_json: not JSON: %v", err)
	}
	return newAdapter().NativeToValue(value)
}

// marshal writes compact JSON without HTML escapes, after it has made sure that it stays below maxText.
func marshal(value any) (string, error) {
	budget := maxText
	if !fits(value, &budget) {
		return "", errTooLarge
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", errors.New("cannot be written as JSON")
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// fits counts a lower bound of the JSON size against the budget. Shared parts count each time they appear.
func fits(value any, budget *int) bool {
	*budget--
	switch v := value.(type) {
	case string:
		*budget -= len(v)
	case []any:
		for _, element := range v {
			if !fits(element, budget) {
				return false
			}
		}
	case map[string]any:
		for key, element := range v {
			if *budget -= len(key); !fits(element, budget) {
				return false
			}
		}
	}
	return *budget >= 0
}

var errTooLarge = errors.New("the text is larger than 4 MiB")
