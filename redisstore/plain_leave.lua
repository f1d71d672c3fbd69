-- plain_leave.lua: gives a lock back, if it is the claim's.
--
-- KEYS  1     the lock's key
--       2     optional: the claim's tombstone, if a try may still be on its way
-- ARGV  1, 2  want and more
--       3     the channel on which those listen who wait
--       4     for how many milliseconds the tombstone stays
-- Result      1
--
-- Invariant: a tombstone is not renewed by leaving again.

local value = holder(KEYS[1])
if value and owns(value, ARGV[1], ARGV[2]) then free(KEYS[1], ARGV[3]) end
if KEYS[2] then redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[4]) end
return 1
