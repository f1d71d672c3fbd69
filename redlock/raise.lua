-- raise.lua: gives a lock its ticket, and raises the mark to it.
--
-- KEYS  1  the record (see node.lua)
--       2  the lock's key
-- ARGV  1  see node.lua
--       2  the value
--       3  the ticket
-- Result   "granted", "novote", "absent" if the value does not have the key, or "toohigh" if the ticket is more than a
--          day ahead of the clock or too high for exact numbers; the mark in it is that from before
--
-- Invariants
--   The mark never falls.
--   The expiry of the key does not change.

--#include node.lua
--#include holder.lua
if not votes then return 'novote' .. status end
if not owns(found[2], ARGV[2]) then return 'absent' .. status end
local ticket = tonumber(ARGV[3])
if not credible(ticket) then return 'toohigh' .. status end
if ticket > tonumber(mark) then redis.call('SET', KEYS[1], head .. ARGV[3] .. tail) end
redis.call('SET', KEYS[2], withTicket(ARGV[2], ARGV[3]), 'KEEPTTL')
return 'granted' .. status
