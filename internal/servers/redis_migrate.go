package servers

import (
	"context"
	"fmt"
	"strconv"
)

// migratePatience is how many milliseconds a node may take to hand a key to another.
const migratePatience = "5000"

// MigrateSlot moves a slot with its keys from one master to another, as an operator does, one key at a time. It calls
// between, unless it is nil, when both nodes know of it and no key has moved, and again after each key. Meanwhile the
// old node responds ASK for keys that it does not have, and the new one serves clients that send ASKING. When it
// returns, all nodes that run know the new owner.
func (c *RedisClusterServers) MigrateSlot(slot int, from, to *RedisServer, between func(moved int)) error {
	if between == nil {
		between = func(int) {}
	}
	if err := c.migrateSlot(strconv.Itoa(slot), from, to, between); err != nil {
		return fmt.Errorf("slot %d from %s to %s: %w", slot, from.Addr(), to.Addr(), err)
	}
	return poll(func(context.Context) error {
		return each(running(c.Nodes), func(r *RedisServer) error {
			view, err := r.clusterView()
			if owner := view.owner(slot); err == nil && owner != to.Addr() {
				err = fmt.Errorf("%s sees slot %d at %q, not at %s", r.Addr(), slot, owner, to.Addr())
			}
			return err
		})
	})
}

func (c *RedisClusterServers) migrateSlot(slot string, from, to *RedisServer, between func(moved int)) error {
	oldID, err := from.clusterID()
	if err != nil {
		return err
	}
	newID, err := to.clusterID()
	if err != nil {
		return err
	}
	// The new owner first: whom the old one sends there must not be sent back.
	if _, err := to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", oldID); err != nil {
		return err
	}
	if _, err := from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", newID); err != nil {
		return err
	}
	between(0)
	for moved := 1; ; moved++ {
		key, err := from.keyIn(slot)
		if err != nil {
			return err
		}
		if key == "" {
			break
		}
		if _, err := from.Do(migrateCommand(key, to)...); err != nil {
			return err
		}
		between(moved)
	}
	// Again: if the old one gave it up first, no node would have it for a moment.
	if _, err := to.Do("CLUSTER", "SETSLOT", slot, "NODE", newID); err != nil {
		return err
	}
	_, err = from.Do("CLUSTER", "SETSLOT", slot, "NODE", newID)
	return err
}

// keyIn is a key of a slot, or nothing if there is none.
func (r *RedisServer) keyIn(slot string) (string, error) {
	answer, err := r.Do("CLUSTER", "GETKEYSINSLOT", slot, "1")
	if keys, _ := answer.([]any); err == nil && len(keys) == 1 {
		return fmt.Sprint(keys[0]), nil
	}
	return "", err
}

// migrateCommand returns the command that moves a key to another node.
func migrateCommand(key string, to *RedisServer) []string {
	command := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", migratePatience}
	switch {
	case to.set.user != "":
		command = append(command, "AUTH2", to.set.user, to.set.password)
	case to.set.password != "":
		command = append(command, "AUTH", to.set.password)
	}
	return append(command, "KEYS", key)
}
