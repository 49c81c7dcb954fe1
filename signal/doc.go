// Package signal has the rules of the inbox: which item a receive takes, and whether an item or a deadline came first.
//
// A signal is buffered from the moment it is accepted, whether or not anybody waits for it. A receive takes the
// oldest item of the names it waits for. An item accepted strictly before a wait's deadline wins; at the deadline
// the timeout wins. That is a function of the two instants alone, never of when the run was processed.
package signal
