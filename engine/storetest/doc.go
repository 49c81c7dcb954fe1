// Package storetest is the contract of engine.Store as a test suite. Every store passes it:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Backend { return newBackend(t) })
//	}
//
// [Run] runs the scenarios, each on data of its own, with a clock that only the test moves; at the end of each the
// store's checker must find nothing and no goroutine may be left. [RunModel] runs random operations on two stores and
// compares what they say. Package memstore is the simple store to compare with.
package storetest
