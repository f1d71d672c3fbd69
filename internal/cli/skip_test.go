package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// TestLsSkipsWhatItCannotRead: somebody wrote keys among those of the store that are none of Holdfast's, or are of a
// newer version. The other locks are listed, and one line says what is not.
func TestLsSkipsWhatItCannotRead(t *testing.T) {
	type planter = func(t *testing.T) (url string, plant func(name, value string), wrongType func(name string))
	for store, begin := range map[string]planter{
		"redis": func(t *testing.T) (string, func(string, string), func(string)) {
			server := servers.Redis(t)
			do := func(command, name, value string) {
				if _, err := server.Do(command, "holdfast:{|"+name+"}", value); err != nil {
					t.Fatal(err)
				}
			}
			return "redis://" + server.Addr(), func(name, value string) { do("SET", name, value) },
				func(name string) { do("LPUSH", name, "x") }
		},
		"etcd": func(t *testing.T) (string, func(string, string), func(string)) {
			server := servers.Etcd(t)
			client := server.Client(t)
			plant := func(name, value string) {
				if _, err := client.Put(t.Context(), "holdfast//line/"+name+"/1", value); err != nil {
					t.Fatal(err)
				}
			}
			return "etcd://" + server.Addr(), plant, func(name string) { plant(name, "{}") }
		},
		"consul": func(t *testing.T) (string, func(string, string), func(string)) {
			server := servers.Consul(t)
			plant := func(name, value string) {
				key := "holdfast/line/" + strings.NewReplacer("%", "~", "\xff", "~FF").Replace(name) + "/1"
				set := map[string]any{"Verb": "set", "Key": key, "Value": []byte(value)}
				check(t, server.Call(t.Context(), http.MethodPut, "/v1/txn", []any{map[string]any{"KV": set}}, nil))
			}
			return "consul://" + server.Addr() + "?ttl=2s", plant, func(name string) { plant(name, "{}") }
		},
		"zk": func(t *testing.T) (string, func(string, string), func(string)) {
			server := servers.ZooKeeper(t)
			url := "zk://" + server.Addr() + "?tick=200ms&ttl=2s"
			client, err := holdfast.Open(t.Context(), url) // makes the nodes above lines
			check(t, err)
			check(t, client.Close())
			conn, events, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
			check(t, err)
			t.Cleanup(func() {
				conn.Close()
				for range events { // until it has ended
				}
			})
			plant := func(name, value string) {
				line := "/holdfast/line/" + strings.ReplaceAll(name, "\xff", "%FF") // what a path can't have is escaped
				for _, path := range []string{line, line + "/" + strings.ReplaceAll(value, " ", "-")} {
					_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
					check(t, err)
				}
			}
			return url, plant, func(name string) { plant(name, "{}") }
		},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			url, plant, wrongType := begin(t)
			c, err := holdfast.Open(t.Context(), url)
			check(t, err)
			defer c.Close()
			if _, err := c.Mutex("good").Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			wrongType("a%1Btype")
			bare(t, "ls", "--store", url).want(t, 0, "\ngood ",
				`^holdfast: 1 name was skipped: "a\\x1btype": .*no version of holdfast.*\n$`)
			plant("foreign", "what is this")
			plant("newer", "2 something of the future")
			plant("\xff", "no name at all")
			r := bare(t, "ls", "--json", "--store", url)
			r.want(t, 0, "", `^holdfast: 4 names were skipped, the first: .*\n$`)
			var list struct{ Locks []struct{ Name string } }
			if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list.Locks) != 1 ||
				list.Locks[0].Name != "good" {
				t.Errorf("%v, %+v", err, r)
			}
			// If nothing at all could be read, that is an error.
			if r := bare(t, "ls", "for", "--store", url); r.code == 0 ||
				!strings.Contains(r.errors, "no version of holdfast") {
				t.Errorf("only that: %+v", r)
			}
		})
	}
}
