// Package tokens knows who may call a server over HTTP: a file of bearer tokens, which holds their digests and not the tokens.
//
// A line of the file is
//
//	sha256:DIGEST PRINCIPAL [TENANT]
//
// with the SHA-256 of the token in hexadecimal, and who its bearer is. Empty lines and lines that begin with # do not count.
// Several tokens may be one principal's: so a token is replaced without a gap.
//
// # Rules
//
// The file must not be writable by its group or readable by others. It is looked at whenever a token is, so a line that is
// removed counts from the next request on, and ends the open streams of its token at their next message. A file with mistakes
// is refused as a whole: at the start that ends the server, afterwards the tokens from before stay and the log says so.
//
// A token that [New] makes has 256 random bits: its digest tells nothing about it. A [File] is safe for concurrent use.
package tokens
