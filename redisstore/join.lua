-- join.lua: adds a claim at the end of a queue.
--
-- KEYS  1  the queue's key (see queue.lua)
--       2  the mark: the highest ticket given, a number
--       3  with a guard or in a cluster: the key of the server's run and its start
-- ARGV  1  "ID REST": the claim, with the server's time as the client estimates it (see queue.lua)
--       2  ttl and grace together, in milliseconds
--       3  the floor: the highest ticket that this client has seen
--       4  optional: "try" to join only if the claim is then held at once; "any" to join whatever the limit of the
--          first claim is; "try any" for both
--       5  optional: the guard in milliseconds
--       6  optional: the server's run, "1 RUN "
--       7  in a cluster: "calm" if the last Join in this slot over the same connection was just before, else "idle"
-- Result   the ticket as a number if the claim is held and alone (the fast path); otherwise "h TICKET AHEAD",
--          "w TICKET AHEAD RECHECK", "g" (it has a tombstone), "l AHEAD ENTRY" (a try that was refused, with the first
--          entry), "b LEFT" (a try while the guard lasts), "mismatch KIND LIMIT" (those of the first claim), "floor",
--          "newer", "foreign", "mark MARK" (the mark cannot have come from counting), "run" (in a cluster: the run
--          stored for this slot is not that of ARGV)
--
-- Invariants
--   The ticket is above the floor, above the mark and above all tickets in the queue, and the mark is raised to it.
--   If there is no mark, data was lost: the mark then starts a minute ahead of the clock. (After a restart keep.lua
--   does that before the first Join can arrive.) The same happens after a pause in a cluster: meanwhile the node may
--   have been a replica, and may lack tickets that its master gave before that failed.
--   A mark beyond the year 2100, and more than a day ahead of the clock, was set by hand: no ticket is drawn from it.
--   (Below that, the clock may have been set back.)
--   A claim that is refused leaves nothing but a higher mark.
--
-- Each command and each argument counts here: the fast path, at the top, is the whole cost of a lock without
-- contention.

if ARGV[7] -- in a cluster
	and string.sub(redis.call('GET', KEYS[3]) or '', 1, #ARGV[6]) ~= ARGV[6] then
	return 'run'
end
local ticket = redis.pcall('INCR', KEYS[2])
if type(ticket) == 'table' then
	if not string.find(ticket.err, 'overflow', 1, true) and not string.find(ticket.err, 'not an integer', 1, true) then
		redis.call('INCR', KEYS[2]) -- fails with the error
	end
	return 'mark ' .. redis.call('GET', KEYS[2])
end
local now, tooFar
if ticket < 1e15 or ticket <= tonumber(ARGV[3]) or ticket > 4102444800000000 or ARGV[7] == 'idle' then
	local time = redis.call('TIME')
	now = time[1] .. string.sub('00000' .. time[2], -6)
	if ticket > 4102444800000000 and (ticket - now > 86400000000 or ticket > 9007199254740000) then -- below 2^53
		return 'mark ' .. redis.call('GET', KEYS[2])
	end
	local floor = tonumber(ARGV[3])
	if ticket < 1e15 or ARGV[7] == 'idle' then ticket = math.max(ticket, now + 60000000) end
	if ticket <= floor then
		tooFar = floor - now > 86400000000
		ticket = floor + 1
	end
	if tooFar or ticket > 9007199254740000 then return 'floor' end
	redis.call('SET', KEYS[2], string.format('%d', ticket))
end
if (not ARGV[5] or ARGV[5] == '0')
	and redis.call('SET', KEYS[1], string.format('1 s %d %s', ticket, ARGV[1]), 'NX', 'PX', ARGV[2]) then
	return ticket
end

if not now then
	local time = redis.call('TIME')
	now = time[1] .. string.sub('00000' .. time[2], -6)
end
local ticketText = string.format('%d', ticket)
local guard, run, runKey = tonumber(ARGV[5] or 0), ARGV[6], KEYS[3]
--#include queue.lua

local q = load(KEYS[1])
if q.refusal then return q.refusal end
local px, mode = tonumber(ARGV[2]), ARGV[4] or ''
local id, rest, kind, limit, units = string.match(ARGV[1], '^(%x+) %d+() (%d+) (%d+) (%d+) ')
limit, units = tonumber(limit), tonumber(units)

local rank -- how many claims are ahead, once that is known

-- finish ends the script.
local function finish(result)
	grantAll(q, id)
	publish()
	return result or status(q, id, ticketText, rank)
end

removeExpired(q)
local stored = recordOf(q, id)
if stored == 't' then return finish('g') end
if stored then
	ticketText = parse(stored)
	extend(q, id, px)
	return finish()
end

local ahead = q.solo and 1 or q.text and redis.call('ZCARD', q.order) or 0
if ahead == 0 then
	q.kind, q.limit, q.mixed, q.held, q.used = kind, limit, nil, 0, 0
elseif kind ~= q.kind or limit ~= q.limit or q.mixed then
	local firstLimit = q.limit
	if q.mixed then
		firstLimit = tonumber((select(4, parse(recordOf(q, redis.call('ZRANGE', q.order, '0', '0')[1])))))
	end
	if kind ~= q.kind or limit ~= firstLimit and not string.find(mode, 'any') then
		return finish(string.format('mismatch %s %d', q.kind, firstLimit))
	end
end
if string.find(mode, 'try') then
	grantAll(q) -- so that ahead and held agree
	if ahead > q.held or q.used + units > limit then
		local entry = describeFirst(q)
		return finish('l ' .. ahead .. ' ' .. entry)
	end
	if guardLeft > 0 then return finish('b ' .. guardLeft) end
end

expand(q)
q.mixed, q.limit = q.mixed or limit ~= q.limit, math.min(limit, q.limit)
if redis.call('ZRANGEBYSCORE', q.order, ticketText, '+inf', 'LIMIT', '0', '1')[1] then -- the mark was lost
	ticketText = string.format('%d', redis.call('ZRANGE', q.order, '-1', '-1', 'WITHSCORES')[2] + 1)
	redis.call('SET', KEYS[2], ticketText)
end
local deadline = nowMillis + px + 1
redis.call('HSET', q.records, id, ticketText .. ' ' .. nowText .. string.sub(ARGV[1], rest))
redis.call('ZADD', q.order, ticketText, id)
redis.call('ZADD', q.deadlines, string.format('%d', deadline), id)
extendKeys(q, deadline, px, ahead == 0)
rank = ahead
return finish()
