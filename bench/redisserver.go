package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// A redisServer is a redis-server of our own in a temp folder, on a free loopback port. Alone it is a site.
type redisServer struct {
	dir     string
	addr    string
	port    string // of addr
	version string
	proc    *process
	client  rueidis.Client
}

func startRedis(ctx context.Context, _ serverSettings) (site, error) {
	program, err := findRedis()
	if err != nil {
		return nil, err
	}
	return startServer(ctx, "redis-server", func(dir string) (site, error) {
		s, err := startRedisServer(ctx, program, dir, noPersistence...)
		if err != nil {
			return nil, err
		}
		return s, nil
	})
}

func findRedis() (string, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w; on Debian: apt-get install redis-server", err)
	}
	return program, nil
}

// noPersistence are the arguments of a server that keeps nothing on its disk.
var noPersistence = []string{"--save", "", "--appendonly", "no"}

// startRedisServer starts one process, with these arguments more. It has a config file: a sentinel wants to write to it.
func startRedisServer(ctx context.Context, program, dir string, args ...string) (*redisServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config, log := filepath.Join(dir, "redis.conf"), filepath.Join(dir, "log")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return nil, err
	}
	proc, err := startProcess(exec.Command(program, append([]string{
		config, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--logfile", log,
	}, args...)...))
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir, addr: loopback(port), port: strconv.Itoa(port), proc: proc}
	if err := awaitReady(ctx, proc, log, s.connect); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *redisServer) connect(ctx context.Context) (err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	s.client = client
	info, err := s.info(ctx)
	if err == nil && info["process_id"] != strconv.Itoa(s.proc.pid()) {
		err = errStranger
	}
	if err != nil {
		client.Close()
		return err
	}
	s.version = info["redis_version"]
	return nil
}

// info is all that the server says about itself.
func (s *redisServer) info(ctx context.Context) (map[string]string, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section("everything").Build()).ToString()
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // the kind of a text in RESP3, which the client leaves there
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// Fresh removes all keys.
func (s *redisServer) Fresh(ctx context.Context) (string, error) {
	return s.addr, s.client.Do(ctx, s.client.B().Flushall().Sync().Build()).Error()
}

// Usage asks the server: it knows its processor time (getrusage) to the microsecond.
func (s *redisServer) Usage(ctx context.Context) (usage, error) {
	info, err := s.info(ctx)
	if err != nil {
		return usage{}, err
	}
	return usageFrom(info)
}

func usageFrom(info map[string]string) (u usage, err error) {
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		value, err := strconv.ParseFloat(info[key], 64)
		if err != nil {
			return usage{}, fmt.Errorf("INFO: %s: %w", key, err)
		}
		u.cpu += seconds(value)
	}
	if u.commands, err = strconv.ParseInt(info["total_commands_processed"], 10, 64); err != nil {
		return usage{}, fmt.Errorf("INFO: total_commands_processed: %w", err)
	}
	u.calls = map[string]int64{}
	for key, value := range info {
		command, ok := strings.CutPrefix(key, "cmdstat_")
		if !ok {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(value, "calls=%d", &n); err != nil {
			return usage{}, fmt.Errorf("INFO: %s: %w", key, err)
		}
		u.calls[command] = n
	}
	u.known = true
	return u, nil
}

func (s *redisServer) About() string {
	return "redis-server " + s.version + ", no persistence, on loopback"
}

// do sends a command of which only the success matters.
func (s *redisServer) do(ctx context.Context, words ...string) error {
	return s.client.Do(ctx, s.client.B().Arbitrary(words...).Build()).Error()
}

func (s *redisServer) end() {
	s.client.Close()
	s.proc.kill()
}

func (s *redisServer) Close() error {
	s.end()
	return os.RemoveAll(s.dir)
}
