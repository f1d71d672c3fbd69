-- join.lua: puts a claim at the end of a line.
--
-- KEYS  1  L, the line (see queue.lua)
--       2  the mark: the highest ticket given, a number
--       3  with a guard: where the server's run and its beginning are kept
-- ARGV  1  "ID REST": the claim, with the time by the client's reckoning of the server's clock (see queue.lua)
--       2  ttl and grace together, in milliseconds
--       3  the floor: the highest ticket that this client has seen
--       4  optional: "try" to join only if it is held at once; "any" to join whatever the limit of the first claim is;
--          "try any" for both
--       5  optional: the guard in milliseconds
--       6  optional: the server's run, "1 RUN "
--       7  optional, in a cluster: "calm" if this slot was joined in over the same connection a moment ago, otherwise "idle"
-- Result   the ticket as a number if it is held and nobody is ahead; otherwise "h TICKET AHEAD", "w TICKET AHEAD AGAIN",
--          "g" (its tombstone was there), "l AHEAD PLACE" (a refused try, and who is first), "b LEFT" (a try while the
--          guard lasts), "mismatch KIND LIMIT" (what the first claim has), "floor", "newer", "foreign",
--          "mark MARK" (nobody has counted that far)
--
-- Invariants
--   The ticket is above the floor, above the mark and above everyone in the line, and the mark is raised to it.
--   Without a mark, data was lost: then it begins a minute ahead of the clock. (After a restart keep.lua sees to that,
--   before the first Join can come.) So it does after a pause in a cluster: the node may have been a replica meanwhile, and
--   know nothing of what its master gave before that died.
--   A mark beyond the year 2100, and more than a day ahead of the clock, was set by hand: no ticket is drawn from it.
--   (Below that, it may be the clock that was set back.)
--   What is refused leaves nothing but a higher mark.
--
-- Each command and each argument counts here: what comes first is all that a lock costs that nobody else wants.

if ARGV[7] and string.sub(redis.call('GET', KEYS[3]) or '', 1, #ARGV[6]) ~= ARGV[6] then return 'run' end -- in a cluster
local ticket = redis.pcall('INCR', KEYS[2])
if type(ticket) == 'table' then
	if not string.find(ticket.err, 'overflow', 1, true) and not string.find(ticket.err, 'not an integer', 1, true) then
		redis.call('INCR', KEYS[2]) -- which fails, and says why
	end
	return 'mark ' .. redis.call('GET', KEYS[2])
end
local now, refused
if ticket < 1e15 or ticket <= tonumber(ARGV[3]) or ticket > 4102444800000000 or ARGV[7] == 'idle' then
	local time = redis.call('TIME')
	now = time[1] .. string.sub('00000' .. time[2], -6)
	if ticket > 4102444800000000 and (ticket - now > 86400000000 or ticket > 9007199254740000) then -- the last exact one
		return 'mark ' .. redis.call('GET', KEYS[2])
	end
	local floor = tonumber(ARGV[3])
	if ticket < 1e15 or ARGV[7] == 'idle' then ticket = math.max(ticket, now + 60000000) end
	if ticket <= floor then
		refused = floor - now > 86400000000
		ticket = floor + 1
	end
	if refused or ticket > 9007199254740000 then return 'floor' end
	redis.call('SET', KEYS[2], string.format('%d', ticket))
end
if (not ARGV[5] or ARGV[5] == '0') and redis.call('SET', KEYS[1], string.format('1 s %d %s', ticket, ARGV[1]), 'NX', 'PX', ARGV[2]) then
	return ticket
end

if not now then
	local time = redis.call('TIME')
	now = time[1] .. string.sub('00000' .. time[2], -6)
end
local text = string.format('%d', ticket)
local guard, run, runKey = tonumber(ARGV[5] or 0), ARGV[6], KEYS[3]
--#include queue.lua

local l = load(KEYS[1])
if l.refusal then return l.refusal end
local px, how = tonumber(ARGV[2]), ARGV[4] or ''
local id, rest, kind, limit, units = string.match(ARGV[1], '^(%x+) %d+() (%d+) (%d+) (%d+) ')
limit, units = tonumber(limit), tonumber(units)

local rank -- how many are ahead of it, once that is known

-- finish ends the script.
local function finish(answer)
	settle(l, id)
	publish()
	return answer or standing(l, id, text, rank)
end

sweep(l)
local was = record(l, id)
if was == 't' then return finish('g') end
if was then
	text = parse(was)
	prolong(l, id, px)
	return finish()
end

local ahead = l.solo and 1 or l.text and redis.call('ZCARD', l.O) or 0
if ahead == 0 then
	l.kind, l.limit, l.mixed, l.held, l.used = kind, limit, nil, 0, 0
elseif kind ~= l.kind or limit ~= l.limit or l.mixed then
	local head = l.limit
	if l.mixed then head = tonumber((select(4, parse(record(l, redis.call('ZRANGE', l.O, '0', '0')[1]))))) end
	if kind ~= l.kind or limit ~= head and not string.find(how, 'any') then
		return finish(string.format('mismatch %s %d', l.kind, head))
	end
end
if string.find(how, 'try') then
	settle(l) -- so that ahead and held agree
	if ahead > l.held or l.used + units > limit then
		local place = first(l)
		return finish('l ' .. ahead .. ' ' .. place)
	end
	if guarded > 0 then return finish('b ' .. guarded) end
end

unfold(l)
l.mixed, l.limit = l.mixed or limit ~= l.limit, math.min(limit, l.limit)
if redis.call('ZRANGEBYSCORE', l.O, text, '+inf', 'LIMIT', '0', '1')[1] then -- the mark was lost, and the line was not
	text = string.format('%d', redis.call('ZRANGE', l.O, '-1', '-1', 'WITHSCORES')[2] + 1)
	redis.call('SET', KEYS[2], text)
end
local deadline = ms + px + 1
redis.call('HSET', l.R, id, text .. ' ' .. moment .. string.sub(ARGV[1], rest))
redis.call('ZADD', l.O, text, id)
redis.call('ZADD', l.D, string.format('%d', deadline), id)
stay(l, deadline, px, ahead == 0)
rank = ahead
return finish()
