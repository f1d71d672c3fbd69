package servers

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A ZooKeeperServer is a ZooKeeper server that runs for one test, alone or as a node of an ensemble.
//
// A node of an ensemble has started when it responds by itself. It does not wait for the others, and without a majority
// of them it serves no client: see [ZooKeeperServer.AwaitHealthy]. Once it has lost its data, it copies that of the
// leader when it starts.
type ZooKeeperServer struct {
	*Server
	id       int               // in the ensemble, from 1
	ensemble *ZooKeeperServers // one of itself, if it is alone

	cuts struct {
		sync.Mutex
		mend []func() // what ends Isolate or Mute
	}
}

// ZooKeeper starts a ZooKeeper server.
//
// Args are lines of its zoo.cfg, such as "forceSync=yes" or "syncLimit=1000". A line that ZooKeeper does not know sets
// the Java property of that name after "zookeeper.".
func ZooKeeper(t testing.TB, options ...Option) *ZooKeeperServer {
	t.Helper()
	return ZooKeeperEnsemble(t, 1, options...).Nodes[0]
}

// The ports of a ZooKeeper server, as indexes.
const (
	clientPort   = iota
	quorumPort   // where a leader waits for followers
	electionPort // where any node waits for the others
	zooKeeperPorts
)

const (
	zooKeeperTick = 200 * time.Millisecond
	// peerPatience is how long a node waits for another that is silent, on a machine that is busy with other tests.
	peerPatience = 5 * time.Second
	// linkedPatience is how long a new leader waits for followers in an ensemble that is [Cuttable]. A follower that is
	// quicker than its leader finds a proxy, which hangs up, and the election has to be repeated.
	linkedPatience = 2 * time.Second
)

// newZooKeeper returns a node of an ensemble. It is not started yet.
func newZooKeeper(t testing.TB, ensemble *ZooKeeperServers, id int) *ZooKeeperServer {
	t.Helper()
	z := &ZooKeeperServer{id: id, ensemble: ensemble}
	z.Server = newServer(t, kind{
		program:   "zookeeper",
		portCount: zooKeeperPorts,
		env:       ensemble.set.env,
		args:      z.javaArgs,
		ready:     z.checkReady,
		fill:      func() error { return z.write(filepath.Join("data", "myid"), strconv.Itoa(id)) },
	})
	return z
}

// javaArgs returns the arguments for the Java virtual machine.
func (z *ZooKeeperServer) javaArgs() []string {
	return []string{
		"-Xmx64m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-XX:MaxJavaStackTraceDepth=4", // the end of the log says what went wrong, rather than where
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dznode.container.checkIntervalMs=200", // containers that are empty are gone soon
		"-cp", zooKeeperClasses(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", z.configFile(),
	}
}

func (z *ZooKeeperServer) configFile() string { return filepath.Join(z.dir, "zoo.cfg") }

// writeConfig writes zoo.cfg, which names the ports of all nodes.
func (z *ZooKeeperServer) writeConfig() error {
	set := z.ensemble.set
	tick := cmp.Or(set.tick, zooKeeperTick)
	initPatience := peerPatience
	if set.cuttable {
		initPatience = linkedPatience
	}
	lines := []string{
		"dataDir=" + z.dataDir(),
		fmt.Sprintf("tickTime=%d", tick.Milliseconds()),
		fmt.Sprintf("minSessionTimeout=%d", 2*tick.Milliseconds()),
		"maxSessionTimeout=600000",
		fmt.Sprintf("initLimit=%d", max(2, initPatience/tick)),
		fmt.Sprintf("syncLimit=%d", max(2, peerPatience/tick)),
		"cnxTimeout=1000",
		"electionPortBindRetry=1",
		"fastleader.maxNotificationInterval=500", // a node that has searched for long still asks often
		"quorumListenOnAllIPs=false",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"forceSync=no", // the kernel keeps what was written by a process that is killed
	}
	clients, err := z.clientLines()
	if err != nil {
		return err
	}
	lines = slices.Concat(lines, clients, z.ensemble.linesFor(z), set.args)
	return z.write("zoo.cfg", strings.Join(lines, "\n")+"\n")
}

// clientLines are the lines of zoo.cfg that say where and how clients are served.
func (z *ZooKeeperServer) clientLines() ([]string, error) {
	c := z.ensemble.set.certificates
	if c == nil {
		return []string{"clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", z.Port())}, nil
	}
	// ZooKeeper wants the key and the certificate in one file.
	key, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(c.CertFile)
	if err != nil {
		return nil, err
	}
	return []string{
		"secureClientPortAddress=127.0.0.1",
		fmt.Sprintf("secureClientPort=%d", z.Port()),
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + filepath.Join(z.dir, "key.pem"),
		"ssl.trustStore.location=" + c.CAFile,
		"ssl.clientAuth=none",
	}, z.write("key.pem", string(key)+string(cert))
}

// write writes a file in its folder.
func (z *ZooKeeperServer) write(name, text string) error {
	return os.WriteFile(filepath.Join(z.dir, name), []byte(text), 0o600)
}

// Command sends one of ZooKeeper's four-letter words, such as "srvr", and returns the response.
func (z *ZooKeeperServer) Command(ctx context.Context, word string) (string, error) {
	dial := (&net.Dialer{}).DialContext
	if c := z.ensemble.set.certificates; c != nil {
		dial = (&tls.Dialer{Config: c.Client}).DialContext
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	conn, err := dial(ctx, "tcp", z.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // the response is there
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	response, err := io.ReadAll(conn)
	return string(response), err
}

// checkReady demands that the process that was started answers: no other runs in its folder. A server that is alone
// must serve clients too. A node may have to wait for others before it can.
func (z *ZooKeeperServer) checkReady() error {
	ctx := context.Background()
	environment, err := z.Command(ctx, "envi")
	if err != nil {
		return err
	}
	if !strings.Contains(environment, "user.dir="+z.dir+"\n") {
		return fmt.Errorf("another server answers on %s", z.Addr())
	}
	if len(z.ensemble.Nodes) > 1 {
		return nil
	}
	return z.checkHealthy(ctx)
}

// firstStart starts it on the ports that are chosen, and waits until it serves its clients. A node opens its ports for
// the others when it answers already, so a clash shows only in its log. The others would wait for it.
func (z *ZooKeeperServer) firstStart() error {
	if err := z.startHere(); err != nil {
		return err
	}
	clashed, err := pollFor(func() (clashed bool, err error) {
		for _, node := range z.ensemble.Nodes {
			if log, err := os.ReadFile(node.logFile()); err == nil && saysClash(string(log)) {
				return true, nil
			}
		}
		return false, z.checkHealthy(context.Background())
	})
	if clashed {
		err = errClash
	}
	return z.failed("first start", err)
}

// checkHealthy demands that clients are served.
func (z *ZooKeeperServer) checkHealthy(ctx context.Context) error {
	_, err := z.status(ctx)
	return err
}

// AwaitHealthy waits until it serves its clients. For a node that means that it leads or follows a majority.
func (z *ZooKeeperServer) AwaitHealthy() error {
	return z.failed("await health", poll(z.checkHealthy))
}

// Mode is "standalone", "leader" or "follower". A node that serves no client has none, and that is an error.
func (z *ZooKeeperServer) Mode(ctx context.Context) (string, error) {
	status, err := z.status(ctx)
	return status.mode, z.failed("mode", err)
}

// A zooKeeperStatus is what a server that serves clients says of itself.
type zooKeeperStatus struct {
	mode  string
	epoch uint64 // of the last write; a leader begins its own before it leads
}

// status returns the mode and the epoch that the node reports.
func (z *ZooKeeperServer) status(ctx context.Context) (zooKeeperStatus, error) {
	said, err := z.Command(ctx, "srvr")
	if err != nil {
		return zooKeeperStatus{}, err
	}
	fields := parseFields(said, ": ")
	zxid, err := strconv.ParseUint(fields["Zxid"], 0, 64)
	if fields["Mode"] == "" || err != nil {
		return zooKeeperStatus{}, fmt.Errorf("%s serves no client: %s", z.Addr(), strings.TrimSpace(said))
	}
	return zooKeeperStatus{mode: fields["Mode"], epoch: zxid >> 32}, nil
}
