-- break.lua: takes a lock away from whoever has it with a ticket. For operators.
--
-- KEYS  1  the record (see node.lua)
--       2  the lock's key
-- ARGV  1  see node.lua
--       2  the ticket
--       3  what the tombstone of a value has before it
--       4  for how many milliseconds the tombstone stays
--       5  the channel on which those listen who wait
-- Result   "granted", or "absent" if nobody has it with that ticket
--
-- Invariant: it leaves a tombstone, or the holder's next keep would set the key again. It is not renewed.

--#include node.lua
--#include holder.lua
local value, ticket = parts(found[2] or '')
if ticket == '0' or ticket ~= ARGV[2] then return 'absent' .. standing end
redis.call('DEL', KEYS[2])
redis.call('SET', ARGV[3] .. value, '', 'NX', 'PX', ARGV[4])
redis.pcall('PUBLISH', ARGV[5], '')
return 'granted' .. standing
