package redisstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Line implements store.Store. It shows the holder and nobody else: of those who wait, Redis knows nothing. Of a holder of
// another library it shows the value that it set.
func (p *Plain) Line(ctx context.Context, name string) (store.Line, error) {
	line := store.Line{Name: name}
	if err := p.check(ctx, name); err != nil {
		return line, err
	}
	answer, _, err := p.base.ask(ctx, frame.AskTimeout, p.base.shelf, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return lookScript.Run(ctx, w, []string{p.key(name)}, nil)
	})
	if err != nil {
		return line, err
	}
	switch holder, err := p.readHolder(answer, name); {
	case err != nil:
		return line, p.strange(err.Error())
	case holder != nil:
		line.Places = []store.Place{*holder}
	}
	return line, nil
}

// Break implements store.Store, for a holder whose value says its ticket.
func (p *Plain) Break(ctx context.Context, name string, ticket uint64) error {
	if err := p.check(ctx, name); err != nil {
		return err
	}
	key := p.key(name)
	answer, _, err := p.base.ask(ctx, frame.AskTimeout, p.base.shelf, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return breakPlainScript.Run(ctx, w, []string{key}, []string{strconv.FormatUint(ticket, 10), p.channel(key)})
	})
	if err != nil {
		return err
	}
	if n, err := answer.ToInt64(); err == nil && n == 1 {
		return nil
	}
	word, err := answer.ToString()
	switch word {
	case "nobody":
		return store.ErrNotHeld
	case "stranger":
		return fmt.Errorf("%w: the holder's value is not Holdfast's own and has no ticket; to break it, "+
			"delete the key %s by hand", store.ErrUnsupported, store.Quote(key))
	default:
		return p.strange(fmt.Sprint(word, err))
	}
}

// Names implements store.Store: it cannot. A lock's key looks like any other.
func (p *Plain) Names(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		yield("", fmt.Errorf("%w: in plain mode locks cannot be told from other keys; mode=line, which is the default, can list them", store.ErrUnsupported))
	}
}
