package boltstore

import "golang.org/x/sys/windows"

// fullErrnos are the errors that say that there is no room.
func fullErrnos() []error {
	return []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}
}
