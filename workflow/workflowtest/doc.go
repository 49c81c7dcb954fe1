// Package workflowtest runs workflows in a Go test with the real engine, on a real file, in fake time: 30 days of sleep
// take milliseconds.
//
//	func TestRefund(t *testing.T) {
//		workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
//			workflowtest.Stub(env, "charge", func(ctx context.Context) (Receipt, error) { return Receipt{ID: "r1"}, nil })
//			run := workflowtest.Start(env, RefundV1, Order{ID: "o1"})
//			run.Until(workflowtest.Question("approve"))
//			run.Answer("approve", map[string]any{"decision": "approve"})
//			env.Crash()
//			receipt, err := run.Result()
//			…
//		}, RefundV1)
//	}
//
// A test runs in a testing/synctest bubble: time stands still while anything can run, and jumps when everything
// waits. Steps that use sockets must be stubbed, because a goroutine in network I/O stops the jumps. The store's checker
// runs at the end of every test.
package workflowtest
