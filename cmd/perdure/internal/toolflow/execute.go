package toolflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/httpstep"
	"github.com/perdure/perdure/cmd/perdure/internal/runstep"
	"github.com/perdure/perdure/cmd/perdure/internal/secret"
	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/workflow"
)

// effect runs a run or http step as a durable step.
func (r *run) effect(ctx workflow.Context, s *toolfile.Step, scope template.Scope) (json.RawMessage, error) {
	options := []workflow.StepOption{workflow.Timeout(time.Duration(s.Timeout))}
	if s.Retry != nil {
		options = append(options, workflow.Retry{
			Max: s.Retry.Max, First: time.Duration(s.Retry.First), Longest: time.Duration(s.Retry.Longest), Factor: s.Retry.Factor,
		})
	}
	record, err := workflow.Step(ctx, s.Name, func(ctx context.Context) (json.RawMessage, error) {
		info := workflow.StepInfo(ctx)
		record, failed := r.exec.execute(ctx, s, scope, identity{
			run: info.Run.String(), key: info.IdempotencyKey, attempt: int(info.Attempt), token: info.Token.String(),
		})
		switch {
		case failed == nil:
			return record, nil
		case failed.final:
			return nil, workflow.Final(failed)
		}
		return nil, failed
	}, options...)
	if err == nil {
		return record, nil
	}
	if s.OnError != toolfile.Continue || ended(err) {
		return nil, err
	}
	text := err.Error()
	var failed *workflow.StepError
	if errors.As(err, &failed) {
		text = failed.Cause()
	}
	return encode(effectRecord{Error: text})
}

// ended reports errors that say that the run ends: no step goes on after those.
func ended(err error) bool {
	return errors.Is(err, workflow.ErrCanceled) || errors.Is(err, workflow.ErrDeadline) || errors.Is(err, workflow.ErrMisuse)
}

// identity is what a step tells the outside about itself.
type identity struct {
	run     string
	key     string
	attempt int
	token   string
}

// env is how a program sees the identity.
func (i identity) env() map[string]string {
	return map[string]string{
		"PERDURE_RUN_ID": i.run, "PERDURE_IDEMPOTENCY_KEY": i.key, "PERDURE_ATTEMPT": strconv.Itoa(i.attempt), "PERDURE_FENCING_TOKEN": i.token,
	}
}

// executor executes the run and http steps of one definition.
type executor struct {
	texts   texts
	secrets map[string]toolfile.SecretSource
	private []string
	// input is what a program without stdin and a request without body get.
	input string
	deps  Deps
}

func (x executor) env() func(string) (string, bool) {
	if x.deps.Env != nil {
		return x.deps.Env
	}
	return os.LookupEnv
}

// failure is why an attempt did not succeed. Its text has no secrets: it is recorded and shown.
type failure struct {
	text  string
	final bool // another attempt cannot help
}

func (f *failure) Error() string { return f.text }

// execute makes one attempt.
func (x executor) execute(ctx context.Context, s *toolfile.Step, scope template.Scope, id identity) (json.RawMessage, *failure) {
	vault := secret.Open(x.secrets, x.env())
	var record effectRecord
	var err error
	if s.Run != nil {
		record, err = x.program(ctx, s.Run, scope, id, vault)
	} else {
		record, err = x.request(ctx, s.HTTP, scope, id, vault)
	}
	if err != nil {
		return nil, failureOf(err, vault.Scrubber())
	}
	data, err := encode(record)
	if err != nil {
		return nil, failureOf(err, vault.Scrubber())
	}
	return data, nil
}

// failureOf judges an error. Executors say themselves whether it is final; any other comes from the definition, the
// arguments or a secret's source, and a retry would meet it again. Scrubbing here is a second line of defence.
func failureOf(err error, scrub *secret.Scrubber) *failure {
	var judged interface{ Final() bool }
	return &failure{text: scrub.Text(err.Error()), final: !errors.As(err, &judged) || judged.Final()}
}

func (x executor) program(ctx context.Context, r *toolfile.Run, scope template.Scope, id identity, vault *secret.Vault) (effectRecord, error) {
	args, err := fillArgs(x.texts, r, scope, vault.Get)
	if err != nil {
		return effectRecord{}, err
	}
	set, err := fillTexts(x.texts, r.Env, scope, vault.Get)
	if err != nil {
		return effectRecord{}, fmt.Errorf("env: %w", err)
	}
	maps.Copy(set, id.env())
	stdin, err := x.texts.Template(r.Stdin).Text(scope, vault.Get, nil)
	if err != nil {
		return effectRecord{}, fmt.Errorf("stdin: %w", err)
	}
	if r.Stdin == "" {
		stdin = x.input
	}
	result, err := runstep.Run(ctx, runstep.Spec{
		Program: r.Program, Args: args, Dir: r.Dir, Env: runstep.Environ(x.env(), r.Pass, set), Stdin: stdin,
		OK: r.OK, Final: r.Final, MaxOutput: r.MaxOutput, Guard: x.deps.Guard,
	}, vault.Scrubber())
	if err != nil {
		return effectRecord{}, err
	}
	if result.Stdout, err = recorded(r.Parse, result.Stdout, result.Truncated, vault.Scrubber()); err != nil {
		return effectRecord{}, fmt.Errorf("%s: %w", r.Program, err)
	}
	return effectRecord{Run: &result}, nil
}

func (x executor) request(ctx context.Context, h *toolfile.HTTP, scope template.Scope, id identity, vault *secret.Vault) (effectRecord, error) {
	target, err := fillURL(x.texts, h, scope, vault.Get)
	if err != nil {
		return effectRecord{}, err
	}
	header, err := fillTexts(x.texts, h.Headers, scope, vault.Get)
	if err != nil {
		return effectRecord{}, fmt.Errorf("header: %w", err)
	}
	body, err := x.body(h, header, scope, vault)
	if err != nil {
		return effectRecord{}, fmt.Errorf("body: %w", err)
	}
	result, err := httpstep.Do(ctx, httpstep.Request{
		Method: h.Method, URL: target, Header: header, Body: body, Expect: h.Expected, MaxOutput: h.MaxOutput,
		AllowPrivate: x.private, IdempotencyKey: id.key,
	}, vault.Scrubber())
	if err != nil {
		return effectRecord{}, err
	}
	if result.Body, err = recorded(h.Parse, result.Body, result.Truncated, vault.Scrubber()); err != nil {
		return effectRecord{}, err
	}
	return effectRecord{HTTP: &result}, nil
}

// body fills the body and names its type, where the file does not.
func (x executor) body(h *toolfile.HTTP, header map[string]string, scope template.Scope, vault *secret.Vault) ([]byte, error) {
	if h.Body != nil {
		text, err := x.texts.Template(*h.Body).Text(scope, vault.Get, nil)
		return []byte(text), err
	}
	if h.JSON == nil && x.input == "" {
		return nil, nil
	}
	if header["Content-Type"] == "" {
		header["Content-Type"] = "application/json"
	}
	if h.JSON == nil {
		return []byte(x.input), nil
	}
	value, err := fill(x.texts, h.JSON, scope, vault.Get)
	if err != nil {
		return nil, err
	}
	return encode(value)
}

// recorded proves that an output has the form that the file promises, and returns what is recorded of it. JSON can
// write a secret with escapes of its own choice: where its texts hold one, it is written anew.
func recorded(parse, output string, truncated bool, scrub *secret.Scrubber) (string, error) {
	if parse == toolfile.ParseJSON && truncated {
		return "", errors.New("the output is longer than max_output, so that its JSON is cut")
	}
	value, err := toolfile.ParseOutput(parse, output)
	if err != nil || parse != toolfile.ParseJSON {
		return output, err
	}
	clean := scrubValue(value, scrub)
	if reflect.DeepEqual(value, clean) {
		return output, nil
	}
	data, err := encode(clean)
	return string(data), err
}

// scrubValue returns a JSON value without secrets in its texts and keys.
func scrubValue(value any, scrub *secret.Scrubber) any {
	switch v := value.(type) {
	case string:
		return scrub.Text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = scrubValue(v[i], scrub)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, field := range v {
			out[scrub.Text(key)] = scrubValue(field, scrub)
		}
		return out
	}
	return value
}
