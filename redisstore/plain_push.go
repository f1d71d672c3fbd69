package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// Ears know whom to wake when a lock is given back, and on which channels to listen for that: one for each key that
// somebody of this process waits for. A channel is left only when many are idle: who has waited for a lock once often does
// so again. They are guarded by the store's mu.
type ears struct {
	of    map[string]*ear // by key: those that are subscribed, and those that are to be
	fresh []string        // keys that somebody waits for and that are not subscribed
	idle  int             // how many are subscribed with nobody to wake
	work  chan struct{}   // holds a token when there is something to do
}

// An ear is for one key.
type ear struct {
	bids       map[store.ID]bool
	subscribed bool
}

// mostIdle is how many channels are listened on with nobody to wake.
const mostIdle = 64

func (e *ears) init() {
	e.of = map[string]*ear{}
	e.work = make(chan struct{}, 1)
}

// add lets b hear of releases, if there is an ear. If there is none, b is woken when there is one, should it wait then.
func (e *ears) add(b *bid) {
	one := e.of[b.key]
	if one == nil {
		return
	}
	if one.subscribed && len(one.bids) == 0 {
		e.idle--
	}
	one.bids[b.id] = true
}

// open lets b hear of releases from now on.
func (e *ears) open(b *bid) {
	if e.of[b.key] == nil {
		e.of[b.key] = &ear{bids: map[store.ID]bool{}}
		e.fresh = append(e.fresh, b.key)
		e.toWork()
	}
	e.add(b)
}

// remove lets b hear nothing any more.
func (e *ears) remove(b *bid) {
	one := e.of[b.key]
	if one == nil || !one.bids[b.id] {
		return
	}
	delete(one.bids, b.id)
	if len(one.bids) > 0 {
		return
	}
	if !one.subscribed {
		delete(e.of, b.key)
	} else if e.idle++; e.idle > mostIdle {
		e.toWork()
	}
}

func (e *ears) toWork() {
	select {
	case e.work <- struct{}{}:
	default:
	}
}

// deaf forgets what was subscribed over a connection that is no more.
func (e *ears) deaf() {
	e.fresh, e.idle = nil, 0
	for key, one := range e.of {
		if one.subscribed = false; len(one.bids) == 0 {
			delete(e.of, key)
		} else {
			e.fresh = append(e.fresh, key)
		}
	}
}

// wanting takes the keys that are to be subscribed.
func (e *ears) wanting() (keys []string) {
	for _, key := range e.fresh {
		if one := e.of[key]; one != nil && !one.subscribed {
			keys = append(keys, key)
		}
	}
	e.fresh = nil
	return keys
}

// hears notes that keys are subscribed, and gives those who have to look now: what was told before is lost on them.
func (e *ears) hears(keys []string) (wake []store.ID) {
	for _, key := range keys {
		one := e.of[key]
		if one == nil { // they have all gone meanwhile
			one = &ear{bids: map[store.ID]bool{}}
			e.of[key] = one
		}
		if one.subscribed = true; len(one.bids) == 0 {
			e.idle++
		}
		for id := range one.bids {
			wake = append(wake, id)
		}
	}
	return wake
}

// tooMany takes the idle keys, if they are too many.
func (e *ears) tooMany() (keys []string) {
	if e.idle <= mostIdle {
		return nil
	}
	for key, one := range e.of {
		if one.subscribed && len(one.bids) == 0 {
			delete(e.of, key)
			keys = append(keys, key)
		}
	}
	e.idle = 0
	return keys
}

// channel is where it is told that a key was given back.
func (p *plainMode) channel(key string) string { return p.base.keys.pushes + freed + key }

const freed = "freed:"

// onFreed takes a message: a lock was given back.
func (p *plainMode) onFreed(channel string) {
	key, ok := strings.CutPrefix(channel, p.channel(""))
	if !ok {
		return
	}
	p.mu.Lock()
	var wake []store.ID
	if one := p.ears.of[key]; one != nil {
		for id := range one.bids {
			wake = append(wake, id)
		}
	}
	p.mu.Unlock()
	p.wake(wake)
}

// wake tells bids to try again. To one that has the lock it says nothing.
func (p *plainMode) wake(ids []store.ID) {
	for _, id := range ids {
		p.base.frame.Push(id, store.Standing{State: store.Waiting, Ahead: -1})
	}
}

// listen stays subscribed to what somebody waits for until the store is closed. Without it, those who wait go on by
// themselves, only slower.
func (p *plainMode) listen() {
	for {
		w, err := p.pushes(p.base.frame.Life())
		if err == nil {
			p.mu.Lock()
			p.ears.deaf()
			p.mu.Unlock()
			err = p.listenOn(w)
		}
		pause := firstPause
		if err != nil {
			pause = lastPause
		}
		select {
		case <-time.After(pause):
		case <-p.base.frame.Life().Done():
			return
		}
	}
}

// listenOn subscribes over one connection, as long as that lasts.
func (p *plainMode) listenOn(w *wire) error {
	for {
		p.mu.Lock()
		fresh, idle := p.ears.wanting(), p.ears.tooMany()
		p.mu.Unlock()
		if len(fresh) > 0 {
			if err := p.subscribe(w, w.Client.B().Subscribe().Channel(p.channels(fresh)...).Build()); err != nil {
				return err
			}
			p.mu.Lock()
			wake := p.ears.hears(fresh)
			p.mu.Unlock()
			p.wake(wake)
		}
		if len(idle) > 0 {
			if err := p.subscribe(w, w.Client.B().Unsubscribe().Channel(p.channels(idle)...).Build()); err != nil {
				return err
			}
		}
		select {
		case <-p.ears.work:
		case <-w.Dead():
			return nil
		case <-p.base.frame.Life().Done():
			return nil
		}
	}
}

func (p *plainMode) channels(keys []string) []string {
	channels := make([]string, len(keys))
	for i, key := range keys {
		channels[i] = p.channel(key)
	}
	return channels
}

// subscribe sends a command about subscriptions.
func (p *plainMode) subscribe(w *wire, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(p.base.frame.Life(), dialTimeout)
	defer cancel()
	return w.Do(ctx, command).Error()
}
