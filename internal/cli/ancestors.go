package cli

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Variables that holdfast run sets in the environment of its command.
const (
	nameEnv  = "HOLDFAST_NAME"  // and _1, _2, ... for several names
	tokenEnv = "HOLDFAST_TOKEN" // likewise
	heldEnv  = "HOLDFAST_HELD"  // the locks of all holdfast runs above the command; read by holdfast only
)

// A holding is a lock that a holdfast run above this process holds, or held when it started the process.
type holding struct {
	identity string // of the store
	name     string
	token    holdfast.Token
}

// holdings returns the locks that holdfast runs above this process hold. Entries that cannot be parsed are ignored:
// another program may use the variable.
func holdings() []holding {
	var all []holding
	for entry := range strings.FieldsSeq(os.Getenv(heldEnv)) {
		part := strings.Split(entry, ":")
		if len(part) != 3 {
			continue
		}
		token, err := holdfast.ParseToken(part[0])
		identity, err1 := url.QueryUnescape(part[1])
		name, err2 := url.QueryUnescape(part[2])
		if err == nil && err1 == nil && err2 == nil {
			all = append(all, holding{identity, name, token})
		}
	}
	return all
}

// String returns the holding in the form that holdings parses.
func (h holding) String() string {
	return h.token.String() + ":" + url.QueryEscape(h.identity) + ":" + url.QueryEscape(h.name)
}

// environment returns the environment of the command.
func (r *run) environment() []string {
	tokens := tokensOf(r.grip, r.names)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		key, _, _ := strings.Cut(v, "=")
		return key == storeEnv || key == heldEnv || isOf(nameEnv, key) || isOf(tokenEnv, key)
	})
	around := holdings()
	for i, name := range r.names {
		around = append(around, holding{r.session.abilities.Identity, name, tokens[i]})
		if len(r.names) > 1 {
			n := "_" + strconv.Itoa(i+1)
			env = append(env, nameEnv+n+"="+name, tokenEnv+n+"="+tokens[i].String())
		}
	}
	var held []string
	for _, h := range around {
		held = append(held, h.String())
	}
	return append(env, nameEnv+"="+r.names[0], tokenEnv+"="+tokens[0].String(),
		storeEnv+"="+absolute(r.session.at).String(), heldEnv+"="+strings.Join(held, " "))
}

// isOf reports whether key is base, or base with a number as in base_1.
func isOf(base, key string) bool {
	rest, ok := strings.CutPrefix(key, base)
	if !ok || rest == "" {
		return ok
	}
	number, ok := strings.CutPrefix(rest, "_")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// refuseNested returns an error if this process would wait for a lock that it runs under itself. It would wait for
// ever, since the lock is released when this process ends. Of a semaphore it may acquire more units, as long as the
// semaphore has that many.
func (r *run) refuseNested(ctx context.Context) error {
	has := map[string]int{}
	for _, h := range holdings() {
		if h.identity != r.session.abilities.Identity || !slices.Contains(r.names, h.name) {
			continue
		}
		queue, err := r.session.Inspect(ctx, h.name)
		if err != nil {
			return err
		}
		for _, e := range queue.Holders() {
			if e.Token.Ticket() != h.token.Ticket() {
				continue
			}
			has[h.name] += e.Units
			if r.slots == 0 || e.Kind == store.Lock || has[h.name]+r.units > r.slots {
				return usageError("%q is held by a holdfast run that this command runs under: it would wait for "+
					"itself; use another name, or unset %s if this command outlives that run", h.name, heldEnv)
			}
		}
	}
	return nil
}
