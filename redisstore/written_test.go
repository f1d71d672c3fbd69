package redisstore_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A Keep writes also where it changes nothing. A server may take WAIT to be about the last write of its connection, and
// behind a Keep it must not vouch for less than the claim's grant, which may be another's write.
func TestKeepAlwaysWrites(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := openAt(t, "redis://"+server.Addr())
	holder := testkit.Held(t, s, claim("written"))
	testkit.Waiting(t, s, claim("written"))
	writes := func() int {
		info := do(t, server, "INFO", "persistence")
		_, rest, _ := strings.Cut(info, "rdb_changes_since_last_save:")
		text, _, _ := strings.Cut(rest, "\r")
		n, err := strconv.Atoi(text)
		testkit.Must(t, err)
		return n
	}
	before := writes()
	// One run of the script has one time: the second cannot move the deadline to another millisecond.
	_, err := s.Keep(t.Context(), []store.Claim{holder, holder})
	testkit.Must(t, err)
	if n := writes() - before; n < 2 {
		t.Errorf("%d writes for two renewals", n)
	}
}

// Where the server refuses to say what its replicas have, nothing counts.
func TestRefusedWaitIsNoGrant(t *testing.T) {
	t.Parallel()
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	do(t, r.Master, "ACL", "SETUSER", "me", "reset", "on", ">secret", "~*", "&*", "+@all", "-wait")
	s := openAt(t, "redis://me:secret@"+r.Master.Addr()+"?wait-replicas=1")
	for range 10 { // its answer and the end of the connection come at the same time
		if standing, err := s.Join(t.Context(), claim("refused")); err == nil {
			t.Fatalf("%+v", standing)
		}
	}
}
