package boltstore

// holderOf names the process that holds the lock on a file, for an error's text; "" where it is not known.
func holderOf(string) string { return "" }
