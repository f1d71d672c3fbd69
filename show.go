package holdfast

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Show gives the store and the claim behind the lease to a guard that the store itself keeps, such as etcdstore.Held. Such
// a guard goes by the claim, and could not tell one holder from the next. So from now on the claim is this lease's alone: it
// is not handed over inside the process when it is given back, and it cannot be downgraded. Show fails if the lease is over.
func (l *Lease) Show() (store.Store, store.Claim, error) {
	s, claim, err := l.show()
	if err != nil {
		return nil, store.Claim{}, l.client.failed("show", l.claim.Name, err)
	}
	return s, claim, nil
}

func (l *Lease) show() (store.Store, store.Claim, error) {
	c := l.client
	c.begin()
	defer c.end()
	// Asked with mu held: whoever hands the claim over has ended the lease before, and takes mu for it.
	if err := l.Err(); err != nil {
		return nil, store.Claim{}, err
	}
	l.claim.shown = true
	return c.store, l.claim.Claim, nil
}

var errShown = fmt.Errorf("%w: its claim was shown to the store's own guard, which knows no downgrade", ErrDowngrade)
