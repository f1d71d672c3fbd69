package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// etcdSocket is the file in a server's folder where it tells how it is, also while it serves no clients.
const etcdSocket = "metrics"

// EtcdCalls counts the calls of one method since the server was started.
type EtcdCalls struct {
	Started  int // calls, or streams
	Received int // messages from clients; on a stream, its end counts as one more
	Sent     int // messages to clients
}

// Calls returns the number of calls of clients, by method, such as Txn, LeaseKeepAlive or Watch. A method that was
// never called may be missing.
func (e *EtcdServer) Calls() (map[string]EtcdCalls, error) {
	metrics, err := e.Metrics()
	return EtcdCallsIn(metrics), err
}

// EtcdCallsIn counts the calls in what Metrics has returned.
func EtcdCallsIn(metrics map[string]float64) map[string]EtcdCalls {
	calls := map[string]EtcdCalls{}
	for series, value := range metrics {
		name, _, _ := strings.Cut(series, "{")
		method := grpcMethod.FindStringSubmatch(series)
		if method == nil {
			continue
		}
		c := calls[method[1]]
		switch name {
		case "grpc_server_started_total":
			c.Started += int(value)
		case "grpc_server_msg_received_total":
			c.Received += int(value)
		case "grpc_server_msg_sent_total":
			c.Sent += int(value)
		}
		calls[method[1]] = c
	}
	return calls
}

var grpcMethod = regexp.MustCompile(`[{,]grpc_method="(\w+)"`)

// Metrics are what the server counts and measures since it was started. Each goes by its name and labels as etcd
// writes them, such as etcd_server_has_leader or grpc_server_started_total{grpc_method="Txn",...}.
func (e *EtcdServer) Metrics() (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), etcdPatience)
	defer cancel()
	page, err := e.getLocal(ctx, "/metrics")
	if err != nil {
		return nil, e.failed("metrics", err)
	}
	metrics, err := parseMetrics(page)
	return metrics, e.failed("metrics", err)
}

// parseMetrics reads metrics in the text format of Prometheus. Each goes by its name and labels as they are written.
func parseMetrics(page []byte) (map[string]float64, error) {
	metrics := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || end < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, err
		}
		metrics[line[:end]] = value
	}
	return metrics, nil
}

// raftStatus is what a node knows of its cluster.
func (e *EtcdServer) raftStatus(ctx context.Context) (r reign, leads bool, err error) {
	var variables struct {
		Status struct {
			ID, Lead string
			Term     uint64
		} `json:"raft.status"`
	}
	page, err := e.get(ctx, "/debug/vars")
	if err == nil {
		err = json.Unmarshal(page, &variables)
	}
	status := variables.Status
	return reign{status.Lead, status.Term}, status.Lead == status.ID, err
}

// getLocal gets a page from the server's socket.
func (e *EtcdServer) getLocal(ctx context.Context, path string) ([]byte, error) {
	return getPage(ctx, "http://localhost"+path, overSocket(filepath.Join(e.dir, etcdSocket)))
}

// get gets a page from the port for clients.
func (e *EtcdServer) get(ctx context.Context, path string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if c := e.cluster.set.certificates; c != nil {
		transport.TLSClientConfig = c.Client.Clone()
	}
	return getPage(ctx, e.url()+path, transport)
}

// getPage returns the body of the response to a GET request.
func getPage(ctx context.Context, url string, via *http.Transport) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	page, err := fetch(via, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return page, nil
}
