package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

const (
	nap      = 25 * time.Millisecond // of the workflow "sleep"
	mails    = 3                     // that the workflow "signals" receives
	rolls    = 3                     // generations of "roll"
	perRoll  = 2                     // signals that each receives
	trimStep = 8                     // steps of each generation of "trimmed": with the rest more than one commit erases
	longStep = 10                    // steps of "long"
)

// workflows returns the code of the child. Each kind of run is one that a crash could hurt in its own way.
func (c *child) workflows() []workflow.Definition {
	small := workflow.Define("small", 1, func(ctx workflow.Context, n int) (int, error) { return n, c.step(ctx, "small") })
	mailbox := func(n int) func(ctx workflow.Context, _ string) ([]string, error) {
		return func(ctx workflow.Context, _ string) (got []string, err error) {
			for len(got) < n && err == nil {
				got, err = receive(ctx, got)
			}
			return got, err
		}
	}
	return []workflow.Definition{
		small,
		workflow.Define("steps", 1, c.steps),
		workflow.Define("sleep", 1, c.sleep),
		workflow.Define("signals", 1, mailbox(mails)),
		workflow.Define("mailbox", 1, mailbox(1)),
		workflow.Define("roll", 1, c.roll),
		workflow.Define("trimmed", 1, c.trimmed),
		workflow.Define("ask", 1, c.ask),
		workflow.Define("slow", 1, c.slow),
		workflow.Define("cancel", 1, c.waitForCancel),
		workflow.Define("long", 1, c.long),
		workflow.Define("tick", 1, func(ctx workflow.Context, _ string) (string, error) { return "", c.step(ctx, "tick") }),
		workflow.Define("exported", 1, func(ctx workflow.Context, _ string) (string, error) { return "", c.step(ctx, "export") }),
		workflow.Define("parent", 1, func(ctx workflow.Context, _ string) (sum int, err error) {
			for i := 1; i <= 2 && err == nil; i++ {
				var n int
				n, err = workflow.Child(ctx, "child", small, i)
				sum += n
			}
			return sum, err
		}),
	}
}

// steps has steps one after another, beside each other, one that fails first, and one that may run once only.
func (c *child) steps(ctx workflow.Context, _ string) (string, error) {
	if err := c.step(ctx, "first"); err != nil {
		return "", err
	}
	_, err := workflow.Each(ctx, "part", []int{1, 2, 3}, strconv.Itoa, func(ctx workflow.Context, i int) (int, error) { return 0, c.step(ctx, "part") })
	if err != nil {
		return "", err
	}
	err = workflow.Do(ctx, "fails", func(ctx context.Context) error {
		if workflow.StepInfo(ctx).Attempt == 1 {
			return errors.New("the first attempt fails")
		}
		return nil
	}, workflow.Retry{Max: 2, First: time.Millisecond})
	if err != nil {
		return "", err
	}
	err = c.step(ctx, onceStep, workflow.AtMostOnce())
	if errors.Is(err, workflow.ErrAmbiguous) {
		return "ambiguous", nil
	}
	return workflow.NewID(ctx), err
}

// onceStep is the name of the step that runs at most once.
const onceStep = "once"

func (c *child) sleep(ctx workflow.Context, _ string) (string, error) {
	for range 2 {
		if err := c.step(ctx, "before"); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, nap); err != nil {
			return "", err
		}
		if err := c.step(ctx, "after"); err != nil {
			return "", err
		}
	}
	return "", nil
}

func receive(ctx workflow.Context, got []string) ([]string, error) {
	s, err := workflow.Receive[string](ctx, "mail")
	if err != nil {
		return got, err
	}
	return append(got, s), nil
}

// rolling is the input of a generation of "roll".
type rolling struct {
	Generation int      `json:"generation"`
	Got        []string `json:"got"`
}

func (c *child) roll(ctx workflow.Context, in rolling) ([]string, error) {
	for range perRoll {
		var err error
		if in.Got, err = receive(ctx, in.Got); err != nil {
			return nil, err
		}
	}
	if in.Generation++; in.Generation < rolls {
		return nil, workflow.ContinueAsNew(in)
	}
	return in.Got, nil
}

// trimmed is "roll" with steps before. Its closed generations are pruned while it goes on: what they received is then in the
// input of the next alone.
func (c *child) trimmed(ctx workflow.Context, in rolling) ([]string, error) {
	for range trimStep {
		if err := c.step(ctx, fmt.Sprintf("generation-%d", in.Generation)); err != nil {
			return nil, err
		}
	}
	return c.roll(ctx, in)
}

// reply is what "ask" asks for.
type reply struct {
	Text string `json:"text"`
}

func (c *child) ask(ctx workflow.Context, _ string) (string, error) {
	a, err := workflow.Ask[reply](ctx, "which", workflow.Question{Message: "Which one?"})
	return a.Text, err
}

// waitForCancel ends by a cancel only, and then undoes what it did.
func (c *child) waitForCancel(ctx workflow.Context, _ string) (string, error) {
	if err := c.step(ctx, "done"); err != nil {
		return "", err
	}
	workflow.OnFail(ctx, undoStep, func(ctx context.Context) error { _, err := c.witness(ctx); return err })
	return "", workflow.Sleep(ctx, time.Hour)
}

// undoStep is the name of the compensation.
const undoStep = "undo"

// long goes on long enough to be paused.
func (c *child) long(ctx workflow.Context, _ string) (string, error) {
	for range longStep {
		if err := c.step(ctx, "work"); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, 2*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", nil
}

// slow has a step that ends when the parent opens the gate.
func (c *child) slow(ctx workflow.Context, _ string) (string, error) {
	return workflow.Step(ctx, "slow", func(ctx context.Context) (string, error) {
		line, err := c.witness(ctx)
		for err == nil {
			if _, missing := os.Stat(c.life.gate()); missing == nil {
				return line, nil
			}
			err = wait(ctx, "the gate")
		}
		return "", err
	})
}

// step is a step that a line in the witness's log tells of; the line is its result.
func (c *child) step(ctx workflow.Context, name string, opts ...workflow.StepOption) error {
	_, err := workflow.Step(ctx, name, c.witness, opts...)
	return err
}

// witness says which execution of which step this is, and what of the run's history was durable when it began.
func (c *child) witness(ctx context.Context) (string, error) {
	info := workflow.StepInfo(ctx)
	var run history.Run
	err := c.persist(ctx, func(ctx context.Context) (err error) {
		run, err = c.engine.Run(ctx, info.Run)
		return err
	})
	if err != nil {
		return "", err
	}
	who := fmt.Sprintf(executor, c.life.Process, info.Token.Epoch, info.Token.Counter)
	line := fmt.Sprintf("%s %s %d %d %s", info.Run, info.Position, run.Seq, time.Now().UnixNano(), who)
	return line, c.say("step %s", line)
}
