package state

import "io/fs"

// ownedByUser holds on Windows, where the folder for temporary files is the user's own.
func ownedByUser(fs.FileInfo) bool { return true }
