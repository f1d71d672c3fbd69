-- plain_detach.lua: replaces the value of a lock that is held by that of another claim, with another expiry. So a lock
-- is detached from its client, and attached to another one.
--
-- KEYS  1     the lock's key
--       2     the tombstone of the claim that is to hold it
--       3     optional: the tombstone of the claim that holds it, if a try of it may still be on its way
-- ARGV  1, 2  what the value begins with now, and then: "holdfast ID "
--       3     for how many milliseconds the key then lives; at least, if the other claim holds the lock already
--       4     to attach it, the owner; empty: it stays
--       5     with a third key: for how many milliseconds that tombstone stays
-- Result      the ticket as a number if the other claim holds it; 0 if it does not
--
-- Invariants
--   A key that holds neither of the two values is read and nothing else.
--   The ticket stays, and so does since when it is held.
--   A claim that has a tombstone does not get the lock.

-- finish ends the script.
local function finish(ticket)
	if KEYS[3] then redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[5]) end
	return ticket
end

local value = holder(KEYS[1])
local from, to = ARGV[1], ARGV[2]
if value and owns(value, to, 'more') then from = to end
if not value or not owns(value, from, 'more') then return finish(0) end
if from ~= to and redis.call('EXISTS', KEYS[2]) == 1 then return finish(0) end
local ticket, since, owner = string.match(value, '^(%d+) (%S+) (.*)$', #from + 1)
if not ticket then return finish(0) end -- no version of holdfast has written it
if ARGV[4] ~= '' then owner = ARGV[4] end
local life = tonumber(ARGV[3])
if from == to then life = math.max(life, redis.call('PTTL', KEYS[1])) end -- calls may overtake each other
-- The expiry first: a server that is full refuses SET as the first write of a script, and only as the first.
redis.call('PEXPIRE', KEYS[1], life)
redis.call('SET', KEYS[1], to .. ticket .. ' ' .. since .. ' ' .. owner, 'KEEPTTL')
return finish(tonumber(ticket))
