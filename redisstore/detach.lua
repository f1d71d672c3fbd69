-- detach.lua: gives a held claim another ID and another deadline. That detaches the claim from its client, or attaches
-- it to another client.
--
-- KEYS  1     the queue's key (see queue.lua)
--       2     the key of the server's run and its start
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       3, 4  the current ID of the claim, and its new one
--       5, 6  its new ttl and grace, in milliseconds
--       7     to attach it: "CHANNEL ABOUT" of its new client (see queue.lua). To detach it, absent: both stay.
-- Result      "h TICKET AHEAD", "w TICKET AHEAD RECHECK" (only for a claim that had the new ID before), "g",
--             "b LEFT" (it cannot be attached while the guard lasts), "newer", "foreign"
--
-- Invariants
--   Ticket, units and position stay. A claim is not given an ID that has a tombstone.
--   A claim that has the new ID already is not renamed. It gets the new deadline, unless its own is later: calls may
--   overtake each other.
--   To attach a claim is a grant, which is refused while the guard lasts: another client may have attached the claim
--   before data was lost.
--   The queue's keys expire with the last deadline, even if the new one is earlier and no client uses the queue again.
--   All keys are read before the first write, and none is empty in between. So while a slot is being moved, the script
--   stops before it has done anything but what removeExpired does.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[2]
--#include queue.lua

local q = load(KEYS[1])
if q.refusal then return q.refusal end
local from, to, px = ARGV[3], ARGV[4], ARGV[5] + ARGV[6]

-- finish ends the script.
local function finish(result)
	grantAll(q, to)
	publish()
	return result
end

removeExpired(q)
grantAll(q, from) -- so that held is true
local id = recordOf(q, to) and to or from
local stored = recordOf(q, id)
if not stored or stored == 't' then return finish('g') end
local held = q.solo or redis.call('ZRANK', q.order, id) < q.held
if id ~= to and not held then
	-- To detach: the client believes that it holds the claim. The grant was lost, and so the claim ends.
	if not ARGV[7] then remove(q, from) end
	return finish('g')
end
if id ~= to and ARGV[7] and guardLeft > 0 then return finish('b ' .. guardLeft) end

local ticket, since, kind, limit, units, _, _, channel, about = parse(stored)
local rest = table.concat({since, kind, limit, units, ARGV[5], ARGV[6], ARGV[7] or channel .. ' ' .. about}, ' ')
if id == to then
	local left = q.solo and redis.call('PTTL', q.key) or redis.call('ZSCORE', q.deadlines, id) - nowMillis - 1
	px = math.max(px, left)
end
extend(q, to, px)
if q.solo then
	redis.call('SET', q.key, '1 s ' .. ticket .. ' ' .. to .. ' ' .. rest, 'KEEPTTL')
	q.solo, q.soloRecord = to, ticket .. ' ' .. rest
else
	redis.call('HSET', q.records, to, ticket .. ' ' .. rest)
	redis.call('ZADD', q.order, ticket, to)
	if id ~= to then
		redis.call('HDEL', q.records, id)
		redis.call('ZREM', q.order, id)
		redis.call('ZREM', q.deadlines, id)
	end
	q.expires = 0
	extendKeys(q, tonumber(redis.call('ZRANGE', q.deadlines, '-1', '-1', 'WITHSCORES')[2]), 0, true)
end
finish()
return status(q, to, ticket)
