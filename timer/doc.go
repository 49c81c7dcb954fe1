// Package timer has the rules of time: how long to wait before a retry ([Backoff]), and the service that wakes runs
// whose timers fall due ([Service]).
//
// A timer row in a store is a wake-up, not a decision: it makes its run ready at an instant, and the run decides by
// its own history what has fallen due. So firing is idempotent, a lost wake-up is found again from the row, and a
// wake-up too many does nothing. A timer never fires before its instant.
package timer
