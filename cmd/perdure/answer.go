package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/form"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

// answerFlags are the ways to answer without a dialog.
type answerFlags struct {
	approve, decline             bool
	edit, reject, reason, answer string
}

func (a *app) answerCommand() *cobra.Command {
	var flags answerFlags
	c := &cobra.Command{
		Use:   "answer [RUN [KEY]] [FIELD=VALUE …]",
		Short: "Answer an open question",
		Long: `Answer answers a question of a run. KEY may be left out where the run has only one, and RUN where only one question
is open at all. A key is the step's name and the number of the time that the run asks it, from 0: review#0, or ship#0[2]/review#0 in
a loop. The bare name will do where only one open question has it. In a terminal, without flags and fields, it asks.

A proposal is approved, edited or rejected: --approve, --edit JSON, --reject REASON. Other questions have fields:
FIELD=VALUE, where the value gets the type of its field, and FIELD:=JSON for anything else. --decline refuses to answer.

The first answer wins and is durable when the command returns. An answer that does not fit is refused, and the question
stays open.

Exit codes: 2 the answer does not fit, 3 there is no such question, 5 it is answered already.`,
		Example: `  perdure answer --approve
  perdure answer 01KBD3X0V9N6T0Q8M7S2R4W5YZ
  perdure answer 01KBD3X0V9N6T0Q8M7S2R4W5YZ review --approve
  perdure answer 01KBD3X0V9N6T0Q8M7S2R4W5YZ --edit '{"amount": 10}'
  perdure answer 01KBD3X0V9N6T0Q8M7S2R4W5YZ size=large count=3`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			q, words, err := findQuestion(c.Context(), client, args)
			if err != nil {
				return err
			}
			req, err := a.composeAnswer(c.Context(), c, q, words, flags)
			if err != nil {
				return err
			}
			run, err := client.Answer(c.Context(), q.Run, q.Key, req)
			if err != nil {
				return err
			}
			return a.print(run, func(w io.Writer) { fmt.Fprintf(w, "answered %s of run %s\n", q.Key, q.Run) })
		},
	}
	f := c.Flags()
	f.BoolVar(&flags.approve, "approve", false, "approve the proposal")
	f.StringVar(&flags.edit, "edit", "", "approve this `JSON` in place of the proposal")
	f.StringVar(&flags.reject, "reject", "", "reject the proposal, for this `REASON`")
	f.BoolVar(&flags.decline, "decline", false, "refuse to answer")
	f.StringVar(&flags.reason, "reason", "", "with --decline: the `REASON`")
	f.StringVar(&flags.answer, "content", "", "the whole answer as `JSON`")
	c.MarkFlagsMutuallyExclusive("approve", "edit", "reject", "decline", "content")
	return c
}

// findQuestion finds the open question that the arguments mean, and returns the words after it.
func findQuestion(ctx context.Context, client *admin.Client, args []string) (admin.Question, []string, error) {
	if len(args) == 0 || strings.Contains(args[0], "=") {
		q, err := onlyQuestion(ctx, client)
		return q, args, err
	}
	d, err := client.Run(ctx, args[0])
	if err != nil {
		return admin.Question{}, nil, err
	}
	words := args[1:]
	if len(words) > 0 && !strings.Contains(words[0], "=") {
		q, err := questionNamed(&d, words[0])
		if err != nil || q != nil {
			return orNone(q), words[1:], err
		}
		for _, e := range d.Timeline {
			if (e.Key == words[0] || questionName(e.Key) == words[0]) && e.Kind.String() == "question opened" {
				return admin.Question{}, nil, exit.New(exit.Conflict, "see: perdure show "+d.ID, "question %s of run %s is no longer open", words[0], d.ID)
			}
		}
		return admin.Question{}, nil, exit.New(exit.NotFound, "list the open ones with: perdure questions", "run %s has no question %q", d.ID, words[0])
	}
	switch len(d.Open) {
	case 1:
		return d.Open[0], words, nil
	case 0:
		return admin.Question{}, nil, exit.New(exit.NotFound, "list the open ones with: perdure questions", "run %s asks nothing", d.ID)
	}
	var keys []string
	for _, q := range d.Open {
		keys = append(keys, q.Key)
	}
	return admin.Question{}, nil, exit.New(exit.Usage, "say which: "+strings.Join(keys, ", "), "run %s asks %d questions", d.ID, len(d.Open))
}

// questionNamed is the open question with a key, or the only one with that name; nil is none. A key is the name of the
// question and, behind #, how often the run has asked it before: review#0.
func questionNamed(d *admin.Detail, word string) (*admin.Question, error) {
	var named []*admin.Question
	var keys []string
	for i := range d.Open {
		q := &d.Open[i]
		if q.Key == word {
			return q, nil
		}
		if questionName(q.Key) == word {
			named, keys = append(named, q), append(keys, q.Key)
		}
	}
	switch len(named) {
	case 0:
		return nil, nil
	case 1:
		return named[0], nil
	}
	return nil, exit.New(exit.Usage, "say which: "+strings.Join(keys, ", "), "run %s asks %q %d times", d.ID, word, len(named))
}

// questionName is the name in a key: review of review#0, and of each#0[3]/review#0.
func questionName(key string) string {
	name, _, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "#")
	return name
}

func orNone(q *admin.Question) admin.Question {
	if q == nil {
		return admin.Question{}
	}
	return *q
}

// onlyQuestion is the one open question that there is.
func onlyQuestion(ctx context.Context, client *admin.Client) (admin.Question, error) {
	open, err := client.Questions(ctx)
	switch {
	case err != nil:
		return admin.Question{}, err
	case len(open) == 0:
		return admin.Question{}, exit.New(exit.NotFound, "wait for one with: perdure questions --wait", "no run asks anything")
	case len(open) > 1:
		return admin.Question{}, exit.New(exit.Usage, "list them with: perdure questions", "%d questions are open: say which run's is meant", len(open))
	}
	return open[0], nil
}

// composeAnswer makes the answer of the flags, the fields, or a dialog.
func (a *app) composeAnswer(ctx context.Context, c *cobra.Command, q admin.Question, words []string, flags answerFlags) (admin.AnswerRequest, error) {
	changed := c.Flags().Changed
	switch {
	case flags.decline:
		return admin.AnswerRequest{Action: form.Decline, Reason: flags.reason}, nil
	case changed("content"):
		return content(flags.answer)
	case flags.approve || changed("edit") || changed("reject"):
		if !q.Approval {
			return admin.AnswerRequest{}, exit.New(exit.Usage, "its fields: "+strings.Join(present.Fields(q.Schema), "; "), "question %s has no proposal to approve, edit or reject", q.Key)
		}
		return accept(decision(flags, changed("edit")))
	case len(words) > 0 && q.Approval:
		return admin.AnswerRequest{}, exit.New(exit.Usage, waysToDecide, "question %s has a proposal, and no fields", q.Key)
	case len(words) > 0:
		fields, err := form.FromWords(q.Schema, words)
		if err != nil {
			return admin.AnswerRequest{}, err
		}
		return accept(fields)
	case form.IsTerminal(a.in):
		return a.dialogAnswer(ctx, q)
	}
	hint := "its fields: " + strings.Join(present.Fields(q.Schema), "; ")
	if q.Approval {
		hint = waysToDecide
	}
	return admin.AnswerRequest{}, exit.New(exit.Usage, hint, "no answer is given, and this is no terminal to ask in")
}

func content(text string) (admin.AnswerRequest, error) {
	if !json.Valid([]byte(text)) {
		return admin.AnswerRequest{}, exit.New(exit.Usage, "", "--content %q is not JSON", text)
	}
	return admin.AnswerRequest{Action: form.Accept, Content: json.RawMessage(text)}, nil
}

// waysToDecide are those on a proposal.
const waysToDecide = "use --approve, --edit JSON or --reject REASON"

func decision(flags answerFlags, edited bool) map[string]any {
	switch {
	case flags.approve:
		return map[string]any{"decision": "approve"}
	case edited:
		return map[string]any{"decision": "edit", "value": flags.edit}
	}
	return map[string]any{"decision": "reject", "reason": flags.reject}
}

func accept(fields map[string]any) (admin.AnswerRequest, error) {
	b, err := json.Marshal(fields)
	if err != nil {
		return admin.AnswerRequest{}, fmt.Errorf("answer: %w", err)
	}
	return admin.AnswerRequest{Action: form.Accept, Content: b}, nil
}

// dialogAnswer asks in the terminal.
func (a *app) dialogAnswer(ctx context.Context, q admin.Question) (admin.AnswerRequest, error) {
	present.Question(a.err, &q, time.Now())
	d := form.NewDialog(a.in, a.err)
	var answer form.Answer
	var err error
	if q.Approval {
		answer, err = d.Approval(ctx, "Your decision:")
	} else {
		answer, err = d.Form(ctx, "Your answer:", q.Schema)
	}
	switch {
	case err != nil:
		return admin.AnswerRequest{}, err
	case answer.Action == form.Leave:
		return admin.AnswerRequest{}, exit.New(exit.Failed, "", "the question is left open")
	case answer.Action == form.Decline:
		return admin.AnswerRequest{Action: form.Decline, Reason: answer.Reason}, nil
	}
	return accept(answer.Content)
}
