// Package proxy is a TCP proxy inside the process that does to bytes what a network does: it holds them back, loses
// them, delays them, and cuts connections. It knows no protocol.
//
//	p, err := proxy.Start("tcp", server)
//	release := p.Hold(proxy.Replies | proxy.Pushes)
//	// Requests arrive, and no client gets a response.
//	release()
//
// Every fault is in effect when its method returns, and lasts until the function that the method returned is called, or
// [Proxy.Heal]. Faults accumulate: bytes pass when no fault holds them.
//
// # The guarantees of TCP remain
//
// A stream of bytes has no holes. So a connection that has lost a byte is silent in that direction from then on, and is
// closed when the fault ends: a later response must never be taken for the one that was lost. Bytes that were held back
// arrive completely and in order, connection by connection.
//
// # Late delivery
//
// Bytes that were held back are delivered even if the client has disconnected meanwhile: they were sent, and a network
// would deliver them. The end of the connection comes after them. Responses to a client that has disconnected are read
// and discarded, so that the server does not notice.
package proxy
