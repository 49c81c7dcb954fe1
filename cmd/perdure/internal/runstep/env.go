package runstep

import (
	"maps"
	"runtime"
	"slices"
)

// inherited are the variables of the server that every program sees. None of them is a credential.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}

// inheritedWindows are those without which programs do not start there.
var inheritedWindows = []string{
	"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramFiles", "ProgramData", "windir",
}

// Environ builds a program's environment: the inherited variables, those named by pass, then those of set, where a
// later one wins. lookup reads the server's environment. The list is sorted.
func Environ(lookup func(string) (string, bool), pass []string, set map[string]string) []string {
	names := append(slices.Clone(inherited), pass...)
	if runtime.GOOS == "windows" {
		names = append(names, inheritedWindows...)
	}
	all := map[string]string{}
	for _, name := range names {
		if value, ok := lookup(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, set)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
