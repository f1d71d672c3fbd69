-- leave.lua: gives a lock back, if it is the value's.
--
-- KEYS  1  the record (see node.lua)
--       2  the lock's key
--       3  optional: the value's tombstone, if a take or keep of it may still be on its way
-- ARGV  1  see node.lua
--       2  the value
--       3  the channel on which those listen who wait; empty: it is not told
--       4  for how many milliseconds the tombstone stays
-- Result   "left"
--
-- Invariants
--   A tombstone is not renewed by leaving again.
--   Whoever may not publish can still leave.
--   It is told whether or not the key was there: those who wait listen at one node only.

--#include node.lua
--#include holder.lua
if owns(found[2], ARGV[2]) then redis.call('DEL', KEYS[2]) end
if ARGV[3] ~= '' then redis.pcall('PUBLISH', ARGV[3], '') end
if KEYS[3] then redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[4]) end
return 'left' .. standing
