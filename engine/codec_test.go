package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/codec"
)

// testKey returns the same key for the same id and fill.
func testKey(id string, fill byte) codec.Key {
	k := codec.Key{ID: id}
	copy(k.Secret[:], bytes.Repeat([]byte{fill}, 32))
	return k
}

// encrypted returns compression and encryption under the keys.
func encrypted(t *testing.T, keys ...codec.Key) []workflow.Codec {
	t.Helper()
	aes, err := codec.NewAESGCM(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return []workflow.Codec{codec.NewGzip(), aes}
}

// recoded opens the file again with other codecs.
func (env *testEnv) recoded(codecs []workflow.Codec) {
	env.t.Helper()
	env.opts.Codecs = codecs
	env.restart()
}

// unloads makes an engine keep no waiting run in memory: each thing that happens is a replay.
func unloads(o engine.Options) engine.Options {
	o.Worker = worker.Options{MaxResident: -1}
	return o
}

const secretText = "the-secret-of-this-test"

// secretive says its secret in every way in which a workflow can.
func secretive() *workflow.Workflow[string, string] {
	inner := workflow.Define("inner", 1, func(_ workflow.Context, in string) (string, error) { return in, nil })
	return workflow.Define("secretive", 1, func(ctx workflow.Context, in string) (string, error) {
		workflow.SetStatus(ctx, "status "+secretText)
		text, err := workflow.Step(ctx, "large", func(context.Context) (string, error) { return strings.Repeat(in, 100), nil })
		if err != nil {
			return "", err
		}
		_, err = workflow.Step(ctx, "fails", func(context.Context) (int, error) { return 0, errors.New("failure " + secretText) })
		if err == nil || !strings.Contains(err.Error(), "failure "+secretText) {
			return "", fmt.Errorf("the failed step says %w", err)
		}
		child, err := workflow.Child(ctx, "child", inner, in)
		if err != nil {
			return "", err
		}
		said, err := workflow.Receive[string](ctx, "say")
		if err != nil {
			return "", err
		}
		d, err := workflow.Ask[workflow.Decision](ctx, "ok", workflow.Question{Message: "question " + secretText, Approval: true})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(text), child, said, d.Decision), nil
	})
}

func TestEncryptedRunGoesOnOverRotationsAndRestarts(t *testing.T) {
	w := secretive()
	k1, k2, k3 := testKey("k1", 1), testKey("k2", 2), testKey("k3", 3)
	env := newEnvWith(t, envOptions{engine: unloads(engine.Options{Codecs: encrypted(t, k1)})}, definitionsOf(w)...)
	ctx := context.Background()
	input := secretText
	begin := func(in string) (*engine.Handle[string], error) {
		return engine.Start(ctx, env.Engine, w, in, engine.StartOptions{Key: "one"})
	}
	h, err := begin(input)
	if err != nil {
		t.Fatal(err)
	}
	waiting := func(r history.Run) bool { return r.Status == history.StatusWaiting }
	env.await(h.ID(), waiting)

	env.recoded(encrypted(t, k1, k2))
	send := func(payload string) (engine.Delivery, error) {
		return env.Signal(ctx, h.ID(), engine.SignalRequest{Name: "say", ID: "s1", Payload: []byte(payload)})
	}
	if again, err := begin(input); err != nil || !again.Existed || again.ID() != h.ID() {
		t.Errorf("started again after a rotation: %v, %v", again, err)
	}
	if _, err := begin("other"); !errors.Is(err, history.ErrConflict) {
		t.Errorf("started with another input: %v", err)
	}
	if d, err := send(`"hello ` + secretText + `"`); err != nil || d != engine.Delivered {
		t.Fatalf("signal: %v, %v", d, err)
	}
	q := env.question(h.ID())

	env.recoded(encrypted(t, k1, k2, k3))
	if d, err := send(`"hello ` + secretText + `"`); err != nil || d != engine.Duplicate {
		t.Errorf("the same signal after a rotation: %v, %v", d, err)
	}
	if _, err := send(`"another"`); !errors.Is(err, history.ErrConflict) {
		t.Errorf("the same signal id with other content: %v", err)
	}
	if r := env.run(h.ID()); r.Message != "status "+secretText {
		t.Errorf("status %q", r.Message)
	}
	if !bytes.Contains(q.Body, []byte("question "+secretText)) || q.Sealed != nil {
		t.Errorf("question %s, %v", q.Body, q.Sealed)
	}
	env.accept(h.ID(), `{"decision":"approve"}`)
	if got, want := result(env, h), fmt.Sprint(100*len(secretText), secretText, "hello "+secretText, workflow.Approve); got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	fork, _, err := env.Fork(ctx, h.ID(), engine.ForkOptions{KeepSignals: true, At: env.seqOf(h.ID(), history.SignalReceived, "say#0")})
	if err != nil {
		t.Fatal(err)
	}
	env.accept(fork.ID, `{"decision":"approve"}`)
	if got := resultOf[string](env, fork.ID); !strings.Contains(got, secretText) {
		t.Errorf("result of the fork: %q", got)
	}
	if d, err := env.Signal(ctx, fork.ID, engine.SignalRequest{Name: "say", ID: "s1", Payload: []byte(`"hello ` + secretText + `"`)}); err != nil || d != engine.Duplicate {
		t.Errorf("a signal that the fork has adopted: %v, %v", d, err)
	}
	env.close()
	stored := env.data.Contents(t)
	if bytes.Contains(stored, []byte(secretText)) || bytes.Contains(stored, []byte(`"hello`)) {
		t.Error("the secret is in the store")
	}
	if id := h.ID(); !bytes.Contains(stored, id[:]) {
		t.Error("the run is not in the store: what is searched is something else")
	}
	env.open()
}

func definitionsOf(w *workflow.Workflow[string, string]) []workflow.Definition {
	return []workflow.Definition{w, workflow.Define("inner", 1, func(_ workflow.Context, in string) (string, error) { return in, nil })}
}

// TestRunWithoutItsKeyIsBlockedUntilTheKeyIsThere: nothing is lost by an opening without the key, or with a wrong one.
func TestRunWithoutItsKeyIsBlockedUntilTheKeyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, in string) (string, error) {
			if _, err := workflow.Step(ctx, "s", func(context.Context) (string, error) { return in, nil }); err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			said, err := workflow.Receive[string](ctx, "go")
			if err != nil {
				return "", err
			}
			d, err := workflow.Ask[workflow.Decision](ctx, "ok", workflow.Question{Message: secretText})
			return said + " " + string(d.Decision), err
		})
		k1 := testKey("k1", 1)
		env := newEnvWith(t, envOptions{engine: unloads(engine.Options{Codecs: encrypted(t, k1)})}, w)
		h := start(env, w, secretText)
		pass(time.Minute)
		blocked := func(want string) {
			t.Helper()
			pass(time.Second)
			r := env.await(h.ID(), func(r history.Run) bool { return r.Status == history.StatusBlocked })
			if !strings.Contains(r.Reason, want) || !strings.Contains(r.Reason, `key "k1"`) {
				t.Errorf("blocked because %q, want %q", r.Reason, want)
			}
			e := env.events(h.ID())[0]
			if e.Sealed == nil || e.Sealed.Key != "k1" || e.Payload != nil || !errors.Is(e.Readable(), history.ErrKey) {
				t.Errorf("event %+v", e)
			}
		}
		env.recoded(encrypted(t, testKey("k2", 2)))
		pass(2 * time.Hour)
		blocked("this process does not have the key")
		env.recoded(nil)
		blocked("this process has no keys")
		if _, err := env.Signal(context.Background(), h.ID(), engine.SignalRequest{Name: "go", Payload: []byte(`"plain"`)}); err != nil {
			t.Fatal(err)
		}
		env.recoded(encrypted(t, testKey("k1", 9)))
		blocked("does not open")
		if _, _, err := env.Fork(context.Background(), h.ID(), engine.ForkOptions{}); !errors.Is(err, history.ErrKey) {
			t.Errorf("forked without the key: %v", err)
		}
		env.recoded(encrypted(t, k1, testKey("k2", 2)))
		q := env.question(h.ID())
		approve := func() error {
			answer := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision": "approve"}`)}
			return env.Answer(context.Background(), h.ID(), q.Key, answer, "me")
		}
		env.recoded(nil)
		if err := approve(); !errors.Is(err, history.ErrKey) {
			t.Errorf("answered without the key: %v", err)
		}
		env.recoded(encrypted(t, k1, testKey("k2", 2)))
		if err := approve(); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); got != "plain approve" {
			t.Errorf("result %q", got)
		}
		env.recoded(nil)
		if _, err := engine.Attach[string](env.Engine, h.ID()).Result(context.Background()); !errors.Is(err, history.ErrKey) {
			t.Errorf("result without the key: %v", err)
		}
		x, err := env.Export(context.Background(), h.ID())
		if err != nil || x.Events[0].Sealed == nil {
			t.Errorf("export %+v, %v", x, err)
		}
	})
}

// TestCodecsAreTurnedOnLate: what was written without codecs is read, and compared, with them.
func TestCodecsAreTurnedOnLate(t *testing.T) {
	w := workflow.Define("w", 1, func(ctx workflow.Context, in string) (string, error) {
		text, err := workflow.Receive[string](ctx, "go")
		return in + text, err
	})
	env := newEnvWith(t, envOptions{engine: unloads(engine.Options{})}, w)
	ctx := context.Background()
	begin := func() *engine.Handle[string] {
		t.Helper()
		h, err := engine.Start(ctx, env.Engine, w, "in", engine.StartOptions{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := begin()
	send := func() engine.Delivery {
		t.Helper()
		d, err := env.Signal(ctx, h.ID(), engine.SignalRequest{Name: "go", ID: "1", Payload: []byte(`"x"`)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	send()
	for _, codecs := range [][]workflow.Codec{{codec.NewGzip()}, encrypted(t, testKey("k1", 1))} {
		env.recoded(codecs)
		if again := begin(); !again.Existed {
			t.Error("the start was not known again")
		}
		if d := send(); d != engine.Duplicate {
			t.Errorf("the signal was %s", d)
		}
	}
	if got := result(env, h); got != "inx" {
		t.Errorf("result %q", got)
	}
}

// TestDeadLetterIsSentOnEncrypted: a payload that moves to another run without being decoded is read there.
func TestDeadLetterIsSentOnEncrypted(t *testing.T) {
	w := workflow.Define("w", 1, func(ctx workflow.Context, wait bool) (string, error) {
		if !wait {
			return "", nil
		}
		return workflow.Receive[string](ctx, "go")
	})
	env := newEnvWith(t, envOptions{engine: engine.Options{Codecs: encrypted(t, testKey("k1", 1))}}, w)
	ctx := context.Background()
	over, open := start(env, w, false), start(env, w, true)
	result(env, over)
	s := engine.SignalRequest{Name: "go", ID: "1", Payload: []byte(`"x"`)}
	if d, err := env.Signal(ctx, over.ID(), s); err != nil || d != engine.DeadLetter {
		t.Fatalf("%v, %v", d, err)
	}
	letters, err := env.DeadLetters(ctx, over.ID())
	if err != nil || len(letters) != 1 || string(letters[0].Payload) != `"x"` {
		t.Fatalf("letters %+v, %v", letters, err)
	}
	if _, err := env.Redeliver(ctx, over.ID(), letters[0].Seq, open.ID(), "me"); err != nil {
		t.Fatal(err)
	}
	if got := result(env, open); got != "x" {
		t.Errorf("result %q", got)
	}
	if d, err := env.Signal(ctx, open.ID(), s); err != nil || d != engine.Duplicate {
		t.Errorf("the same signal from its sender: %v, %v", d, err)
	}
}

// TestPayloadThatLooksEncodedComesBackAsItWas: also without codecs.
func TestPayloadThatLooksEncodedComesBackAsItWas(t *testing.T) {
	looks := "\x01\x01\x07aes-gcm\x02k1data"
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		workflow.SetStatus(ctx, looks)
		return "", errors.New(looks)
	})
	for _, codecs := range [][]workflow.Codec{nil, {codec.NewGzip()}, encrypted(t, testKey("k1", 1))} {
		env := newEnvWith(t, envOptions{engine: engine.Options{Codecs: codecs}}, w)
		h := start(env, w, 1)
		re := failed(env, h)
		if re.Failure.Message != looks {
			t.Errorf("failure %q", re.Failure.Message)
		}
		if r := env.run(h.ID()); r.Message != looks || r.Failure.Message != looks {
			t.Errorf("run says %q, %q", r.Message, r.Failure.Message)
		}
	}
}

// TestCodecStoreSeesEveryPayload: a method of Store that a payload passes through, and that the store with codecs only
// inherits, would let ciphertext through.
func TestCodecStoreSeesEveryPayload(t *testing.T) {
	s, err := engine.WithCodecs(nil)
	if err != nil {
		t.Fatal(err)
	}
	payloads := []reflect.Type{
		reflect.TypeFor[history.Start](), reflect.TypeFor[history.Batch](), reflect.TypeFor[history.Run](), reflect.TypeFor[history.State](),
		reflect.TypeFor[history.Claim](), reflect.TypeFor[history.Event](), reflect.TypeFor[history.InboxItem](), reflect.TypeFor[history.Interrupt](),
		reflect.TypeFor[engine.Page](),
	}
	carries := func(x reflect.Type) bool {
		for x.Kind() == reflect.Slice || x.Kind() == reflect.Pointer {
			x = x.Elem()
		}
		for _, p := range payloads {
			if x == p {
				return true
			}
		}
		return false
	}
	value := reflect.TypeOf(s)
	for i := range value.NumMethod() {
		m := value.Method(i)
		var with bool
		for j := range m.Type.NumIn() {
			with = with || carries(m.Type.In(j))
		}
		for j := range m.Type.NumOut() {
			with = with || carries(m.Type.Out(j))
		}
		f := runtime.FuncForPC(m.Func.Pointer())
		file, _ := f.FileLine(f.Entry())
		inherited := strings.Contains(file, "autogenerated")
		if with && inherited {
			t.Errorf("%s passes payloads on as they are stored", m.Name)
		}
		if m.Name == "Renew" && !inherited {
			t.Error("inherited methods are not known any more: this test sees nothing")
		}
	}
}

func TestCodecsThatCannotBeToldApartAreRefused(t *testing.T) {
	for name, codecs := range map[string][]workflow.Codec{"nil": {nil}, "twice": {codec.NewGzip(), codec.NewGzip()}} {
		if _, err := engine.WithCodecs(nil, codecs...); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
