package proxy

import "regexp"

var subscribes = regexp.MustCompile(`(?i)\r\n[PS]?SUBSCRIBE\r\n`)

// RESP2 classifies connections to a Redis server by a client that speaks RESP2. A connection that has subscribed to
// anything carries only pushes, since in RESP2 it can do nothing else. With RESP3 they share a connection, and there
// is nothing to classify.
func RESP2(sent []byte) Flow {
	if subscribes.Match(sent) {
		return Pushes
	}
	return Replies
}
