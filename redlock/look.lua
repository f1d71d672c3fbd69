-- look.lua: returns the holder of a lock, and the status of the node.
--
-- KEYS  1  the record (see node.lua)
--       2  optional: the lock's key
-- ARGV  1  see node.lua
-- Result   "absent", or "denied" with the holder; "absent n MAXTTL" if there is no record
--
-- Invariant: at a node without a record it writes nothing.

if redis.call('EXISTS', KEYS[1]) == 0 then return 'absent n ' .. string.match(ARGV[1], '^1 (%d+)') end
--#include node.lua
--#include holder.lua
if KEYS[2] and (found[2] or redis.call('EXISTS', KEYS[2]) == 1) then return denied(KEYS[2], found[2]) end
return 'absent' .. status
