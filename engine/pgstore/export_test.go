package pgstore

// SelectLines is what a claim looks for candidates with, TakeFree takes them, TakeFirst does both; CommitPlain makes commits, UpdateRows
// writes the rows of a transaction, FireTimers notes what fell due, SelectHistories reads short histories. ByIndex is said before.
const (
	SelectLines     = selectLines
	TakeFree        = takeFree
	TakeFirst       = takeFirst
	CommitPlain     = commitPlain
	UpdateRows      = updateRows
	FireTimers      = fireTimers
	SelectHistories = selectHistories
	ByIndex         = byIndex
)
