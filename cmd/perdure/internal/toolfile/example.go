package toolfile

import _ "embed"

//go:embed example.yaml
var example []byte

// Example returns the commented file that a new user begins with. It needs no network and no configuration.
func Example() []byte { return append([]byte(nil), example...) }
