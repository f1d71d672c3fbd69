// Package zkstore keeps locks in ZooKeeper.
package zkstore
