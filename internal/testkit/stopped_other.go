//go:build !unix

package testkit

import "testing"

// TestStoppedHolder is skipped: this system has no signal that stops a process.
func (c *Cluster) TestStoppedHolder(t *testing.T, _ func(*testing.T, *Holder)) {
	t.Helper()
	t.Skip("this system has no signal that stops a process")
}
