package holdfast

// KeepAll keeps every claim once and returns when that is done.
func (c *Client) KeepAll() {
	c.begin()
	c.recheckAll()
	c.end()
	c.calls.Wait()
}

// Waiting returns how many claims of the client wait in a queue.
func (c *Client) Waiting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.claims {
		if cl.phase == waiting {
			n++
		}
	}
	return n
}

// Owners returns how many owners the client has.
func (c *Client) Owners() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owners)
}
