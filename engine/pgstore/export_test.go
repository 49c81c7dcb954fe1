package pgstore

// SelectLines is what a claim looks for candidates with, TakeFree takes them, TakeFirst does both; CommitPlain makes commits.
// ByIndex is said before.
const (
	SelectLines = selectLines
	TakeFree    = takeFree
	TakeFirst   = takeFirst
	CommitPlain = commitPlain
	ByIndex     = byIndex
)
