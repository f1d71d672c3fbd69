package servers

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdPatience is how long an etcd server may take to answer. By itself it gives up after six seconds.
const etcdPatience = 8 * time.Second

// etcdUser is who may do everything in an etcd that demands a login. Etcd knows this name.
const etcdUser = "root"

func (c *EtcdServers) client(t testing.TB, endpoints []string) *clientv3.Client {
	t.Helper()
	config := c.config(endpoints)
	if c.password != "" {
		config.Username, config.Password = etcdUser, c.password
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // the test may have closed it
	return client
}

func (c *EtcdServers) config(endpoints []string) clientv3.Config {
	config := clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: etcdPatience,
		Logger:      zap.NewNop(), // tests end servers on purpose
	}
	if c.certificates != nil {
		config.TLS = c.certificates.Client.Clone()
	}
	return config
}

// demandLogin has etcd demand a login of every client, if there is a password and it does not yet.
func (c *EtcdServers) demandLogin(ctx context.Context) error {
	if c.password == "" {
		return nil
	}
	client, err := clientv3.New(c.config(c.Endpoints()))
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the answer is there
	if _, err := client.Authenticate(ctx, etcdUser, c.password); !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return err
	}
	// An earlier attempt may have come half way.
	_, err = client.UserAdd(ctx, etcdUser, c.password)
	if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return err
	}
	_, err = client.RoleAdd(ctx, etcdUser)
	if err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return err
	}
	if _, err = client.UserGrantRole(ctx, etcdUser, etcdUser); err != nil {
		return err
	}
	_, err = client.AuthEnable(ctx)
	return err
}
