package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// An etcdNode is one process of an etcdCluster.
type etcdNode struct {
	name string
	dir  string
	addr string
	peer string // where the other nodes find it
	proc *process
}

// newEtcdNode chooses where a node will be. Its folder is a new one: another may be left from an earlier try.
func newEtcdNode(in, name string) (*etcdNode, error) {
	dir, err := os.MkdirTemp(in, name+"-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	peerPort, err := freePort()
	if err != nil {
		return nil, err
	}
	return &etcdNode{name: name, dir: dir, addr: loopback(port), peer: loopback(peerPort)}, nil
}

func (n *etcdNode) log() string { return filepath.Join(n.dir, "log") }

func (n *etcdNode) start(program string, args ...string) (err error) {
	n.proc, err = startProcess(exec.Command(program, append([]string{
		"--name", n.name, "--data-dir", filepath.Join(n.dir, "data"),
		"--listen-client-urls", "http://" + n.addr, "--advertise-client-urls", "http://" + n.addr,
		"--listen-peer-urls", "http://" + n.peer, "--initial-advertise-peer-urls", "http://" + n.peer,
		"--log-level", "warn", "--log-outputs", n.log(),
	}, args...)...))
	return err
}

// check demands that the process that was started serves clients. Its variables have its command line.
func (n *etcdNode) check(ctx context.Context, token string) error {
	variables, err := n.page(ctx, "/debug/vars")
	if err != nil {
		return err
	}
	if !strings.Contains(variables, token) {
		return errStranger
	}
	_, err = n.page(ctx, "/health")
	return err
}

// pages gets them one by one, and keeps no connection.
var pages = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (n *etcdNode) page(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.addr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := pages.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return string(text), err
}
