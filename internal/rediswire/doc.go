// Package rediswire has connections to a Redis server, as a store needs them that keeps locks there: each leads to one run
// of one server, or has ended.
//
//   - client.go: a client of rueidis' that connects only when asked to
//   - wire.go: one connection, shared by all calls
//   - plug.go: the place of a connection, which is replaced when it ends
//   - info.go: what the server says of itself
//   - script.go: texts that the server runs as one step
//   - explain.go: what an error means
package rediswire
