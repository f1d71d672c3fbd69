// Package stores registers every store that Holdfast has, so that holdfast.Open finds each by its URL. Import it for
// its effect in programs that let their users choose; a program that knows its store imports that store's package
// alone, and gets no dependency of the others.
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
