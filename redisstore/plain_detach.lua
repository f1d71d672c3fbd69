-- plain_detach.lua: replaces the value of a held lock by that of another claim, with another expiry. That detaches the
-- lock from its client, or attaches it to another client.
--
-- KEYS  1     the lock's key
--       2     the tombstone of the claim that is to hold the lock
--       3     optional: the tombstone of the claim that holds the lock, if a try of it may still arrive
-- ARGV  1, 2  what the value begins with now, and then: "holdfast ID "
--       3     for how many milliseconds the key then lives; at least, if the other claim holds the lock already
--       4     to attach it, the owner; empty: the owner stays
--       5     with a third key: for how many milliseconds that tombstone stays
-- Result      the ticket as a number if the other claim then holds the lock; otherwise 0
--
-- Invariants
--   A key that holds neither of the two values is read, but never changed.
--   The ticket and SINCE stay.
--   A claim that has a tombstone does not get the lock.

-- finish ends the script.
local function finish(ticket)
	if KEYS[3] then redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[5]) end
	return ticket
end

local value = valueOf(KEYS[1])
local from, to = ARGV[1], ARGV[2]
if value and owns(value, to, 'more') then from = to end
if not value or not owns(value, from, 'more') then return finish(0) end
if from ~= to and redis.call('EXISTS', KEYS[2]) == 1 then return finish(0) end
local ticket, since, owner = string.match(value, '^(%d+) (%S+) (.*)$', #from + 1)
if not ticket then return finish(0) end -- no version of Holdfast has written it
if ARGV[4] ~= '' then owner = ARGV[4] end
local px = tonumber(ARGV[3])
if from == to then px = math.max(px, redis.call('PTTL', KEYS[1])) end -- calls may overtake each other
-- The expiry first: a server that is full refuses SET as the first write of a script, and only as the first.
redis.call('PEXPIRE', KEYS[1], px)
redis.call('SET', KEYS[1], to .. ticket .. ' ' .. since .. ' ' .. owner, 'KEEPTTL')
return finish(tonumber(ticket))
