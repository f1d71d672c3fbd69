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

// What a command finds in its environment.
const (
	nameEnv  = "HOLDFAST_NAME"  // and _1, _2, ... for several
	tokenEnv = "HOLDFAST_TOKEN" // likewise
	heldEnv  = "HOLDFAST_HELD"  // all that it and those around it run under: for holdfast, not for people
)

// A holding is a lock that a holdfast run around this process holds, or held when it started.
type holding struct {
	identity string // of the store
	name     string
	token    holdfast.Token
}

// holdings reads what is held around this process. What cannot be read is somebody else's.
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

// String writes the holding as holdings reads it.
func (h holding) String() string {
	return h.token.String() + ":" + url.QueryEscape(h.identity) + ":" + url.QueryEscape(h.name)
}

// environment is what the command sees.
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

// isOf says whether key is base, or one of its numbered sisters.
func isOf(base, key string) bool {
	rest, ok := strings.CutPrefix(key, base)
	if !ok || rest == "" {
		return ok
	}
	number, ok := strings.CutPrefix(rest, "_")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// refuseNested says whether this process would wait for a lock that it runs under itself. It would wait for ever: the
// lock is given back when this process ends. Of a semaphore it may have more, as long as that can ever be granted.
func (r *run) refuseNested(ctx context.Context) error {
	has := map[string]int{}
	for _, h := range holdings() {
		if h.identity != r.session.abilities.Identity || !slices.Contains(r.names, h.name) {
			continue
		}
		line, err := r.session.Inspect(ctx, h.name)
		if err != nil {
			return err
		}
		for _, p := range line.Holders() {
			if p.Token.Ticket() != h.token.Ticket() {
				continue
			}
			has[h.name] += p.Units
			if r.slots == 0 || p.Kind == store.Lock || has[h.name]+r.units > r.slots {
				return usageError("%q is held by a holdfast run that this command runs under: it would wait for itself; "+
					"take another name, or unset %s if this command outlives that one", h.name, heldEnv)
			}
		}
	}
	return nil
}
