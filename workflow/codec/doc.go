// Package codec has codecs for the payloads of runs: [Gzip] compresses, [AESGCM] encrypts. Give them to an engine in the
// order in which they are applied, compression first:
//
//	keys, err := codec.ParseKeys(file)
//	aes, err := codec.NewAESGCM(keys...)
//	e, err := engine.New(store, engine.Options{Codecs: []workflow.Codec{codec.NewGzip(), aes}})
//
// # Rules
//
// A key's id names one key for ever. The newest key of a list is its last: it encrypts, and all decrypt. To rotate, add a
// key; to retire one, wait until no run is left that was written with it.
//
// Lengths are not hidden, and compression before encryption lets them tell something of the content: leave it out where
// somebody can put text of their own beside a secret and watch the sizes.
package codec
