-- plain_leave.lua: releases a lock, if the claim holds it.
--
-- KEYS  1     the lock's key
--       2     optional: the claim's tombstone, if a try may still arrive
-- ARGV  1, 2  EXPECTED and MORE (see plain.lua)
--       3     the channel of the waiters
--       4     for how many milliseconds the tombstone stays
-- Result      1
--
-- Invariant: leaving again does not renew a tombstone.

local value = valueOf(KEYS[1])
if value and owns(value, ARGV[1], ARGV[2]) then release(KEYS[1], ARGV[3]) end
if KEYS[2] then redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[4]) end
return 1
