// Package stores registers all stores of Holdfast, so that holdfast.Open can open each by its URL. It is imported for
// its side effect, by programs whose users choose the store. A program with a fixed store imports only that store's
// package, and has no dependencies of the others.
//
//	import _ "github.com/holdfast-go/holdfast/stores"
package stores

import (
	_ "github.com/holdfast-go/holdfast/consulstore"       // consul: consuls:
	_ "github.com/holdfast-go/holdfast/etcdstore"         // etcd: etcds:
	_ "github.com/holdfast-go/holdfast/memstore"          // memory:
	_ "github.com/holdfast-go/holdfast/redisstore"        // redis: valkey: and their variants
	_ "github.com/holdfast-go/holdfast/redlock"           // redlock: redlocks:
	_ "github.com/holdfast-go/holdfast/sqlstore/mysql"    // mysql: mariadb:
	_ "github.com/holdfast-go/holdfast/sqlstore/postgres" // postgres: postgresql:
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"   // sqlite:
	_ "github.com/holdfast-go/holdfast/zkstore"           // zk: zks:
)
