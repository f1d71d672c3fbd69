// Package proxy is a TCP proxy inside the process that does to bytes what a network does: it holds them back, loses
// them, delays them, and cuts connections. It knows no protocol.
//
//	p, err := proxy.Start("tcp", server)
//	release := p.Hold(proxy.Replies | proxy.Pushes)
//	// Requests land, and nobody hears of it.
//	release()
//
// Every fault is in effect when its method returns, and lasts until the function that the method gave back is
// called, or [Proxy.Heal]. Faults add up: bytes pass when no fault holds them any more.
//
// # What TCP promises stays true
//
// A stream of bytes has no holes. So a connection that has lost a byte is silent in that direction from then on, and
// is closed when the fault ends: a later answer must never be taken for the one that was lost. What is held back
// arrives complete and in order, connection by connection.
//
// # Late delivery
//
// Bytes that were held back are delivered even if the client has gone away meanwhile: they were sent, and a network
// would deliver them. The end of the connection comes after them. What the server answers to nobody is read and
// thrown away, so that the server never notices.
package proxy
