package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// consulPatience is how long a Consul server may take to answer. Without a leader it gives up after seven seconds.
const consulPatience = 10 * time.Second

// Call makes a request of Consul's HTTP API, with the token that may do everything if there is one. In is sent, and the
// response is read into out, both in JSON, unless they are nil. A status other than 200 is an error.
func (c *ConsulServer) Call(ctx context.Context, method, path string, in, out any) error {
	return c.failed(method+" "+path, c.call(ctx, c.cluster.set.password, method, path, in, out))
}

// get sends a GET request, and decodes the JSON response into out.
func (c *ConsulServer) get(ctx context.Context, path string, out any) error {
	return c.call(ctx, c.cluster.set.password, http.MethodGet, path, nil, out)
}

func (c *ConsulServer) call(ctx context.Context, token, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	said, err := c.request(ctx, token, method, path, body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(said, out)
}

// request makes a request at the agent's socket, where nobody else can listen.
func (c *ConsulServer) request(ctx context.Context, token, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("X-Consul-Token", token)
	}
	return fetch(overSocket(c.Socket()), request)
}

// Requests counts the requests that the agent has answered since it was started, by method and path without what is
// variable, such as "PUT v1_txn" or "GET v1_kv_". Its own calls, as those of this package, are among them.
func (c *ConsulServer) Requests(ctx context.Context) (map[string]int, error) {
	metrics, err := c.metrics(ctx)
	requests := map[string]int{}
	for series, value := range metrics {
		if labels := consulRequest.FindStringSubmatch(series); labels != nil {
			requests[labels[1]+" "+labels[2]] += int(value)
		}
	}
	return requests, c.failed("requests", err)
}

// BlockingQueries returns how many blocking queries are under way at a server: its own, and those that other agents
// have passed on to it. Consul counts when one begins, so that it begins one.
func (c *ConsulServer) BlockingQueries(ctx context.Context) (int, error) {
	err := c.get(ctx, "/v1/session/list?stale&index=1&wait=1ms", nil)
	metrics, failed := c.metrics(ctx)
	return int(metrics["consul_rpc_queries_blocking"]) - 1, c.failed("blocking queries", errors.Join(err, failed))
}

// metrics returns the metrics of the agent by their names.
func (c *ConsulServer) metrics(ctx context.Context) (map[string]float64, error) {
	page, err := c.request(ctx, c.cluster.set.password, http.MethodGet, "/v1/agent/metrics?format=prometheus", nil)
	if err != nil {
		return nil, err
	}
	return parseMetrics(page)
}

var consulRequest = regexp.MustCompile(`^consul_api_http_count\{method="(\w+)",path="(\w+)"\}$`)

// Token makes a token with a policy, given as rules such as `key_prefix "" { policy = "read" }`, and returns its
// secret. All nodes know it then. It needs [Password].
func (c *ConsulServer) Token(ctx context.Context, rules string) (string, error) {
	policy := map[string]string{"Name": "test-" + strconv.FormatInt(time.Now().UnixNano(), 36), "Rules": rules}
	if err := c.Call(ctx, http.MethodPut, "/v1/acl/policy", policy, nil); err != nil {
		return "", err
	}
	var token struct{ SecretID string }
	policies := map[string]any{"Policies": []any{map[string]string{"Name": policy["Name"]}}}
	if err := c.Call(ctx, http.MethodPut, "/v1/acl/token", policies, &token); err != nil {
		return "", err
	}
	return token.SecretID, c.failed("token", each(c.cluster.Nodes, func(node *ConsulServer) error {
		return poll(func(context.Context) error {
			return node.call(ctx, token.SecretID, http.MethodGet, "/v1/acl/token/self?stale", nil, nil)
		})
	}))
}

// raftStatus is what a server knows of its cluster.
func (c *ConsulServer) raftStatus(ctx context.Context) (r reign, leads bool, err error) {
	var self struct {
		Stats struct {
			Consul struct {
				Leader string `json:"leader_addr"`
			} `json:"consul"`
			Raft struct{ State, Term string } `json:"raft"`
		}
	}
	if err := c.get(ctx, "/v1/agent/self", &self); err != nil {
		return reign{}, false, err
	}
	term, err := strconv.ParseUint(self.Stats.Raft.Term, 10, 64)
	return reign{self.Stats.Consul.Leader, term}, self.Stats.Raft.State == "Leader", err
}
