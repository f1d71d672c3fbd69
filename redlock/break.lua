-- break.lua: releases a lock that is held with a ticket. For operators.
--
-- KEYS  1  the record (see node.lua)
--       2  the lock's key
-- ARGV  1  see node.lua
--       2  the ticket
--       3  the prefix of tombstones, which a value follows
--       4  for how many milliseconds the tombstone stays
--       5  the channel of the waiters
-- Result   "granted", or "absent" if the lock is not held with that ticket
--
-- Invariant: it leaves a tombstone, or the holder's next keep would set the key again. A tombstone is not renewed.

--#include node.lua
--#include holder.lua
local value, ticket = splitTicket(found[2] or '')
if ticket == '0' or ticket ~= ARGV[2] then return 'absent' .. status end
redis.call('DEL', KEYS[2])
redis.call('SET', ARGV[3] .. value, '', 'NX', 'PX', ARGV[4])
redis.pcall('PUBLISH', ARGV[5], '')
return 'granted' .. status
