// Package workflow is what the author of a workflow imports. A workflow is an ordinary Go function:
//
//	func Refund(ctx workflow.Context, in Order) (Receipt, error) {
//		quote, err := workflow.Step(ctx, "quote", func(ctx context.Context) (Quote, error) {
//			return price(ctx, in)
//		}, workflow.Retry{Max: 5}, workflow.Timeout(time.Minute))
//		…
//		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil { … }
//		d, err := workflow.Ask[workflow.Decision](ctx, "approve", workflow.Question{Message: "Refund?", Proposal: quote})
//		…
//	}
//
//	var RefundV1 = workflow.Define("refund", 1, Refund)
//
// The durable operations are [Step], [Sleep], [Receive], [Ask], the constructs [Each], [All], [Race] and [Scope], and
// the recorded values [Now], [NewID] and [Rand].
//
// # Rules
//
// The function is run again from its start whenever the run goes on after a crash, a deploy or a long wait. What a
// durable operation returned before, it returns again, without doing anything. So:
//
//   - Everything that touches the world goes into a step. A step runs at least once; its result is recorded exactly once.
//   - Between durable operations the function only computes. Clocks, entropy, goroutines, channels and maps' order
//     are not the same at the second time: use [Now], [Rand], [Each], and sort what comes out of a map.
//   - A [Context] belongs to its function and its goroutine. A step gets a context.Context of its own, a branch a
//     Context of its own; shadowing ctx is the idiom. Using the outer one is refused with [ErrMisuse].
//   - Branches share results, not memory: a branch that has returned is not run again, so what it wrote into a
//     captured variable is gone after a restart.
//   - Deferred functions run whenever the function is unloaded from memory, not only at its end. What must happen when a
//     run fails belongs into [OnFail].
//
// A change to the code of a workflow with live runs must keep the order of operations that those runs have already
// recorded; otherwise the run is blocked, with a readable difference, until code that fits is deployed. Define a new
// version for a new order: versions run side by side.
//
// # Errors
//
// An error that goes into the history is stored in one canonical form, so that what is replayed is what was first
// returned: errors.Is with the Err… values and errors.As with the types of this package hold after replay. Other
// error values keep their text only.
package workflow
