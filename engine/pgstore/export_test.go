package pgstore

// SelectLines is what a claim looks for candidates with.
const SelectLines = selectLines
