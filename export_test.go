package holdfast

// KeepAll keeps every claim once and returns when that is done.
func (c *Client) KeepAll() {
	c.begin()
	c.recheckAll()
	c.end()
	c.calls.Wait()
}

// Waiting is how many claims of the client stand in a line without being held.
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

// Owners is how many owners the client remembers.
func (c *Client) Owners() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owners)
}
