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

// A redisServer is a redis-server of our own in a temp folder, without persistence, on a free loopback port.
type redisServer struct {
	dir     string
	addr    string
	version string
	proc    *process
	client  rueidis.Client
}

func startRedis(ctx context.Context, _ serverSettings) (site, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w; on Debian: apt-get install redis-server", err)
	}
	return startServer(ctx, "redis-server", func(dir string) (site, error) { return startRedisOnce(ctx, program, dir) })
}

func startRedisOnce(ctx context.Context, program, dir string) (site, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "log")
	proc, err := startProcess(exec.Command(program,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--save", "", "--appendonly", "no", "--logfile", log))
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir, addr: loopback(port), proc: proc}
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
	for line := range strings.Lines(text) {
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

func (s *redisServer) Close() error {
	s.client.Close()
	s.proc.kill()
	return os.RemoveAll(s.dir)
}
