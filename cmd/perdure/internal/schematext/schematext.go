// Package schematext says in words what does not fit a JSON Schema. The validator names places as paths of the schema and
// rules by their keywords; whoever typed the value knows neither.
package schematext

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

var (
	// place is one level of the validator's error: "validating /properties/n: ".
	place = regexp.MustCompile(`^validating ([^\s:]+|<[^>]*>): `)
	// keyword is the rule that was broken, where the text after it says as much.
	keyword = regexp.MustCompile(`^(type|enum|const|minimum|maximum|exclusiveMinimum|exclusiveMaximum|multipleOf|minLength|maxLength|pattern|minItems|maxItems|uniqueItems|required): `)
	// zeros end a bound, which the validator writes with six digits.
	zeros = regexp.MustCompile(`(\d)\.0{6}$|(\.\d*[1-9])0+$`)
	// fraction is how the validator writes a number that is compared.
	fraction = regexp.MustCompile(`^-?\d+/\d+`)
	missing  = regexp.MustCompile(`^missing properties: \[(.*)\]$`)
	unknown  = regexp.MustCompile(`^unexpected additional properties \[(.*)\]$`)
	quoted   = regexp.MustCompile(`" "`)
)

// Plain turns the text of a validator's error into one line for people: n: 0 is less than 1. A text that is none of
// those stays as it is.
func Plain(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	// What stands before the first place says what was validated.
	before, where := "", ""
	if i := strings.Index(text, "validating "); i > 0 {
		before, text = text[:i], text[i:]
	}
	found := false
	for m := place.FindStringSubmatch(text); m != nil; m = place.FindStringSubmatch(text) {
		found = true
		where, text = field(m[1]), text[len(m[0]):]
	}
	if !found {
		return before + text
	}
	text = keyword.ReplaceAllString(text, "")
	text = zeros.ReplaceAllString(fraction.ReplaceAllStringFunc(text, decimal), "$1$2")
	if m := missing.FindStringSubmatch(text); m != nil {
		text = "missing " + quoted.ReplaceAllString(m[1], `", "`)
	}
	if m := unknown.FindStringSubmatch(text); m != nil {
		text = "unknown: " + quoted.ReplaceAllString(m[1], `", "`)
	}
	if where != "" {
		text = where + ": " + text
	}
	return before + text
}

func decimal(fraction string) string {
	r, ok := new(big.Rat).SetString(fraction)
	if !ok {
		return fraction
	}
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// field is the value's place for a place of the schema: /properties/a/items/properties/b is a[].b. The root is "".
func field(path string) string {
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	var out strings.Builder
	parts := strings.Split(path[1:], "/")
	for i := 0; i < len(parts); i++ {
		switch {
		case parts[i] == "items":
			out.WriteString("[]")
		case parts[i] == "properties" && i+1 < len(parts):
			i++
			if out.Len() > 0 {
				out.WriteByte('.')
			}
			out.WriteString(strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i]))
		}
	}
	return out.String()
}
