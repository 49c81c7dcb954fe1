package toolflow

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// texts finds the compiled form of a definition's templates: a Tool or a Notify.
type texts interface {
	Template(source string) *template.Template
}

// fill fills the templates in a JSON value. A text that is exactly one expression becomes that expression's value.
func fill(t texts, raw json.RawMessage, scope template.Scope, secrets template.Secrets) (any, error) {
	value, err := template.Decode(raw)
	if err != nil {
		return nil, err
	}
	return fillValue(t, value, scope, secrets)
}

func fillValue(t texts, value any, scope template.Scope, secrets template.Secrets) (any, error) {
	var err error
	switch v := value.(type) {
	case string:
		return t.Template(v).Value(scope, secrets)
	case []any:
		for i := range v {
			if v[i], err = fillValue(t, v[i], scope, secrets); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = fillValue(t, v[key], scope, secrets); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// fillTexts fills a mapping of texts.
func fillTexts(t texts, all map[string]string, scope template.Scope, secrets template.Secrets) (map[string]string, error) {
	out := map[string]string{}
	for name, source := range all {
		text, err := t.Template(source).Text(scope, secrets, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// fillArgs fills the arguments of a program. A list fills as many arguments as it has elements. A filled-in argument
// that begins with - could be taken for an option: it is refused unless the step allows it. The value is not in the
// error, since it may be a secret.
func fillArgs(t texts, r *toolfile.Run, scope template.Scope, secrets template.Secrets) ([]string, error) {
	var out []string
	for i, source := range r.Args {
		tmpl := t.Template(source)
		if literal, ok := tmpl.Literal(); ok {
			out = append(out, literal)
			continue
		}
		values, err := argument(tmpl, scope, secrets)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		for _, value := range values {
			if strings.HasPrefix(value, "-") && !r.AllowDash {
				return nil, fmt.Errorf("argument %d, %s, begins with - and could be taken for an option; to allow that, give the step allow_dash: true", i+1, source)
			}
			if strings.ContainsRune(value, 0) {
				return nil, fmt.Errorf("argument %d, %s, holds a NUL character", i+1, source)
			}
		}
		out = append(out, values...)
	}
	return out, nil
}

func argument(tmpl *template.Template, scope template.Scope, secrets template.Secrets) ([]string, error) {
	value, err := tmpl.Value(scope, secrets)
	if err != nil {
		return nil, err
	}
	elements, ok := value.([]any)
	if !ok {
		text, err := template.Text(value)
		return []string{text}, err
	}
	out := make([]string, len(elements))
	for i, element := range elements {
		if out[i], err = template.Text(element); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return out, nil
}

// fillURL fills a URL. Values are escaped for their place, so that none can add a segment, a parameter or a fragment.
func fillURL(t texts, h *toolfile.HTTP, scope template.Scope, secrets template.Secrets) (string, error) {
	filled, err := t.Template(h.URL).Text(scope, secrets, escapeURL)
	if err != nil {
		return "", fmt.Errorf("url: %w", err)
	}
	path, query, _ := strings.Cut(filled, "?")
	for _, segment := range strings.Split(path, "/")[3:] { // after scheme, // and host
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("url: a path segment is %s, which leads elsewhere", segment)
		}
	}
	more, err := fillTexts(t, h.Query, scope, secrets)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	names := make([]string, 0, len(more))
	for name := range more {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		query += "&" + url.QueryEscape(name) + "=" + url.QueryEscape(more[name])
	}
	if query = strings.TrimPrefix(query, "&"); query != "" {
		return path + "?" + query, nil
	}
	return path, nil
}

func escapeURL(before, value string) (string, error) {
	if strings.Contains(before, "?") {
		return url.QueryEscape(value), nil
	}
	if value == "" {
		return "", fmt.Errorf("a path segment is empty")
	}
	return url.PathEscape(value), nil
}
