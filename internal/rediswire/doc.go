// Package rediswire has connections to a Redis server, as a store needs them that keeps locks there: each leads to one
// run of one server, or has ended.
//
//   - client.go: a client of rueidis' that connects only when asked to
//   - connection.go: one connection, shared by all calls
//   - conn.go: the connection of the store's own below it, and greeting.go how it begins
//   - dedicated.go: the connection of a client of rueidis' below it, for pushes and for clients that were handed in
//   - reconnector.go: holds one connection, which is replaced when it ends
//   - request.go, resp.go, reply.go: what is sent, how it is written and read, and what comes back
//   - info.go: what the server reports of itself
//   - credentials.go: how connections log in
//   - script.go: texts that the server runs as one step
//   - explain.go: what an error means
package rediswire
