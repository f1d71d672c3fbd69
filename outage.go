package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// outageLimit is how long after its first failed Join a call continues to try, if the store does not respond to this
// client at all in the meantime. So a store that cannot be reached is noticed, and a store that is only overloaded
// fails no call that waits.
const outageLimit = 10 * time.Second

// errLateGrant is the error of a grant that is of no use. The store responds, and the next grant may be in time.
var errLateGrant = fmt.Errorf("%w: it was granted, but the response took longer than the ttl", ErrLost)

// An outage is a run of Joins that failed: those of one request, or those of one localQueue. Nil is none.
type outage struct {
	err   error  // the last failure
	fails int32  // how many in a row
	since int64  // when the first one failed, or the first one after the store was last known to respond
	heard uint64 // the client's count of responses at that time
}

// tryAgain notes that a Join failed, and reports whether to make another claim. The one that failed is withdrawn, and
// never holds. It is called with mu held.
func (c *Client) tryAgain(run **outage, name string, err error) bool {
	if c.isClosed() {
		return false
	}
	if _, fault := errors.AsType[*Fault](err); !errors.Is(err, errLateGrant) && (!fault || store.Final(err)) {
		return false
	}
	now := monoNow()
	if *run == nil {
		*run = &outage{since: now, heard: c.heard}
		c.warn("holdfast: not joined; retrying", "name", name, "err", err)
	}
	o := *run
	if o.heard != c.heard || store.Busy(err) {
		o.since, o.heard = now, c.heard
	}
	o.err = err
	o.fails++
	return now-o.since < int64(outageLimit)
}

// pause returns how long to wait before the next try.
func (o *outage) pause(ttl time.Duration) time.Duration {
	if o == nil {
		return 0
	}
	return backoff(ttl, o.fails)
}

// explain adds the last failure to the error of a context that ended the outage for its caller.
func (o *outage) explain(why error) error {
	if o == nil {
		return why
	}
	return errors.Join(why, o.err)
}
