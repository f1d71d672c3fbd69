-- detach.lua: gives a held claim another ID and another time. So a claim is detached from its client, and attached to
-- another one.
--
-- KEYS  1     L, the line (see queue.lua)
--       2     where the server's run and its beginning are kept
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       3, 4  the ID that the claim has, and the one that it gets
--       5, 6  its new ttl and grace, in milliseconds
--       7     optional, to attach it: "CHANNEL ABOUT" of its new client (see queue.lua). To detach it, both stay.
-- Result      "h TICKET AHEAD", "w TICKET AHEAD AGAIN" (only for an ID that was there before), "g",
--             "b LEFT" (it cannot be attached while the guard lasts), "newer", "foreign"
--
-- Invariants
--   Ticket, units and position stay. An ID that has a tombstone is not given to a claim.
--   A claim that has the new ID already is not renamed, and gets the new time, unless it has more: calls may overtake
--   each other.
--   To attach a claim is a grant: while the guard lasts, it may be another's, who attached it before data was lost.
--   The line's keys expire with the last deadline: also if the new one is earlier, and nobody comes back to the line.
--   All keys are read before the first write, and none is empty in between. So a slot that is being moved stops the
--   script before it has done anything but what sweep does.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[2]
--#include queue.lua

local l = load(KEYS[1])
if l.refusal then return l.refusal end
local from, to, px = ARGV[3], ARGV[4], ARGV[5] + ARGV[6]

-- finish ends the script.
local function finish(answer)
	settle(l, to)
	publish()
	return answer
end

sweep(l)
settle(l, from) -- so that held is true
local id = record(l, to) and to or from
local was = record(l, id)
if not was or was == 't' then return finish('g') end
local held = l.solo or redis.call('ZRANK', l.O, id) < l.held
if id ~= to and not held then
	if not ARGV[7] then remove(l, from) end -- its client believes that it holds: the grant was lost, and the claim is over
	return finish('g')
end
if id ~= to and ARGV[7] and guarded > 0 then return finish('b ' .. guarded) end

local ticket, since, kind, limit, units, _, _, channel, about = parse(was)
local rest = table.concat({since, kind, limit, units, ARGV[5], ARGV[6], ARGV[7] or channel .. ' ' .. about}, ' ')
if id == to then
	local left = l.solo and redis.call('PTTL', l.L) or redis.call('ZSCORE', l.D, id) - ms - 1
	px = math.max(px, left)
end
prolong(l, to, px)
if l.solo then
	redis.call('SET', l.L, '1 s ' .. ticket .. ' ' .. to .. ' ' .. rest, 'KEEPTTL')
	l.solo, l.record = to, ticket .. ' ' .. rest
else
	redis.call('HSET', l.R, to, ticket .. ' ' .. rest)
	redis.call('ZADD', l.O, ticket, to)
	if id ~= to then
		redis.call('HDEL', l.R, id)
		redis.call('ZREM', l.O, id)
		redis.call('ZREM', l.D, id)
	end
	l.expires = 0
	stay(l, tonumber(redis.call('ZRANGE', l.D, '-1', '-1', 'WITHSCORES')[2]), 0, true)
end
finish()
return standing(l, to, ticket)
