-- leave.lua: releases a lock, if the value has it.
--
-- KEYS  1  the record (see node.lua)
--       2  the lock's key
--       3  optional: the value's tombstone, if a take or keep of it may still arrive
-- ARGV  1  see node.lua
--       2  the value
--       3  the channel of the waiters; empty: they are not notified
--       4  for how many milliseconds the tombstone stays
-- Result   "left"
--
-- Invariants
--   Leaving again does not renew a tombstone.
--   A client that may not publish can still leave.
--   Waiters are notified even if the key was not there: each of them is subscribed at one node only.

--#include node.lua
--#include holder.lua
if owns(found[2], ARGV[2]) then redis.call('DEL', KEYS[2]) end
if ARGV[3] ~= '' then redis.pcall('PUBLISH', ARGV[3], '') end
if KEYS[3] then redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[4]) end
return 'left' .. status
