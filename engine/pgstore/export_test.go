package pgstore

// SelectLines is what a claim looks for candidates with, TakeFree takes them, TakeFirst does both; ByIndex is said before.
const (
	SelectLines = selectLines
	TakeFree    = takeFree
	TakeFirst   = takeFirst
	ByIndex     = byIndex
)
