package schemafit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The library's texts, by keyword. They end in what is matched: what comes before can quote the value.
var (
	typeText   = regexp.MustCompile(`(?s) has type "([a-z]+)", want (?:one of )?"([a-z, ]+)"$`)
	numberText = regexp.MustCompile(`^(-?[0-9]+(?:/[0-9]+)?) is `)
	countText  = regexp.MustCompile(`(?s) (?:contains|length|has|validated) ([0-9]+)(?: | is )[^0-9]* ([0-9]+)$`)
	dependText = regexp.MustCompile(`(?s)^dependentRequired\[(".*")\]: missing properties (\[.*\])$`)
)

// reason puts the library's text into plain words; a text that it does not know comes back as it is.
func (p *place) reason(text string) string {
	if names, ok := strings.CutPrefix(text, "unexpected additional properties "); ok {
		return p.unknown(quotedList(names), text)
	}
	if m := dependText.FindStringSubmatch(text); m != nil {
		if name, err := strconv.Unquote(m[1]); err == nil {
			return fmt.Sprintf("with %s it needs %s too", name, strings.Join(quotedList(m[2]), ", "))
		}
	}
	keyword, detail, _ := strings.Cut(text, ": ")
	switch keyword {
	case "required":
		return p.missing(quotedList(strings.TrimPrefix(detail, "missing properties: ")), text)
	case "type":
		if m := typeText.FindStringSubmatch(text); m != nil {
			return p.subject() + "is " + kind(m[1]) + ", want " + kinds(m[2])
		}
	case "enum":
		if allowed, ok := p.part()["enum"].([]any); ok {
			return p.subject() + "is not one of " + list(allowed)
		}
	case "const":
		if want, ok := p.part()["const"]; ok {
			return p.subject() + "is not " + show(want)
		}
	case "pattern":
		if pattern, ok := p.part()["pattern"].(string); ok {
			return p.subject() + "does not match the pattern " + pattern
		}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		if r, ok := p.bound(keyword, detail); ok {
			return r
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		if m := countText.FindStringSubmatch(text); m != nil {
			return count(keyword, m[1], m[2])
		}
	case "uniqueItems":
		var i, j int
		if _, err := fmt.Sscanf(detail, "array items %d and %d are equal", &i, &j); err == nil {
			return fmt.Sprintf("items %d and %d are equal", min(i, j), max(i, j))
		}
	case "anyOf":
		return p.subject() + "fits none of the forms that are allowed"
	case "oneOf":
		if strings.HasPrefix(detail, "validated against both") {
			return p.subject() + "fits more than one of the forms that are allowed"
		}
		return p.subject() + "fits none of the forms that are allowed"
	case "not":
		return p.subject() + "is not allowed"
	}
	return text
}

// subject is the value with a blank behind it, where it is known and short.
func (p *place) subject() string {
	switch p.value.(type) {
	case map[string]any, []any, nil:
		return ""
	}
	if !p.known {
		return ""
	}
	return show(p.value) + " "
}

func (p *place) missing(names []string, text string) string {
	switch len(names) {
	case 0:
		return text
	case 1:
		p.field = join(p.field, names[0])
		return "is missing"
	}
	return strings.Join(names, ", ") + " are missing"
}

// unknown refuses members that the schema does not have, and names those that it has.
func (p *place) unknown(names []string, text string) string {
	if len(names) == 0 {
		return text
	}
	slices.Sort(names)
	reason := "there is no " + strings.Join(names, ", ")
	if len(names) == 1 {
		p.field = join(p.field, names[0])
		reason = "is not known"
	}
	if has, ok := p.part()["properties"].(map[string]any); ok && len(has) > 0 && len(has) <= maxListed {
		reason += ": there is " + strings.Join(slices.Sorted(maps.Keys(has)), ", ")
	}
	return reason
}

func (p *place) bound(keyword, detail string) (string, bool) {
	m := numberText.FindStringSubmatch(detail)
	limit, ok := p.part()[keyword].(json.Number)
	if m == nil || !ok {
		return "", false
	}
	n, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return "", false
	}
	given := n.RatString()
	if !n.IsInt() {
		f, _ := n.Float64()
		given = strconv.FormatFloat(f, 'g', -1, 64)
	}
	words := map[string]string{
		"minimum": "is less than", "maximum": "is more than", "multipleOf": "is not a multiple of",
		"exclusiveMinimum": "is not more than", "exclusiveMaximum": "is not less than",
	}
	return fmt.Sprintf("%s %s %s", given, words[keyword], digits(limit)), true
}

// digits spells a whole limit out: the schema has it rounded, as JSON writes a float64.
func digits(limit json.Number) string {
	f, err := limit.Float64()
	if err != nil || f != math.Trunc(f) {
		return limit.String()
	}
	return new(big.Rat).SetFloat64(f).RatString()
}

func count(keyword, have, want string) string {
	unit := "characters"
	switch {
	case strings.HasSuffix(keyword, "Items"):
		unit = "items"
	case strings.HasSuffix(keyword, "Properties"):
		unit = "members"
	}
	bound := "at least"
	if strings.HasPrefix(keyword, "max") {
		bound = "at most"
	}
	return fmt.Sprintf("has %s %s, want %s %s", have, unit, bound, want)
}

func kinds(names string) string {
	var out []string
	for name := range strings.SplitSeq(names, ", ") {
		out = append(out, kind(name))
	}
	return strings.Join(out, " or ")
}

// kind names a JSON type with its article.
func kind(name string) string {
	switch name {
	case "null":
		return name
	case "integer", "array", "object":
		return "an " + name
	}
	return "a " + name
}

const (
	maxListed = 20
	maxShown  = 80 // bytes
)

// list shows allowed values. Words stand without quotes.
func list(values []any) string {
	var out []string
	for i, v := range values {
		if i == maxListed {
			out = append(out, "…")
			break
		}
		if s, ok := v.(string); ok && s != "" && !strings.ContainsAny(s, " ,\"\n\t") {
			out = append(out, s)
			continue
		}
		out = append(out, show(v))
	}
	return strings.Join(out, ", ")
}

// show is the JSON of a value, cut off where it is long.
func show(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(shorten(s))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return shorten(string(b))
}

func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// quotedList reads what %q prints of a []string; nil where the text is none.
func quotedList(text string) []string {
	rest, ok := strings.CutPrefix(text, "[")
	var out []string
	for ok && rest != "]" {
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil
		}
		name, err := strconv.Unquote(q)
		if err != nil {
			return nil
		}
		out = append(out, name)
		rest = strings.TrimPrefix(rest[len(q):], " ")
	}
	return out
}
