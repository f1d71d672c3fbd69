-- queue.lua: the rule of the line. The other scripts include it; only here and in the quick beginnings of join.lua
-- and leave.lua is a line changed.
--
-- Expects    now       the server's time in microseconds, as text of 16 digits, read once
--            guard     for how many milliseconds after a restart nothing is granted; 0: no guard
--            run       with a guard: which run of the server the caller is connected to: "1 RUN "
--            runKey    with a guard: where the run and its beginning are kept: "1 RUN MILLISECONDS". If it is of a newer
--                      version, the script ends with "newer".
--
-- A line has four keys. The last three are the first with something behind it. They are not among the scripts' KEYS: each
-- key would cost as much as a small command, and most lines have only the first. They share its hash tag, so that they
-- lie where it lies. In a cluster, a node from which their slot is just being moved refuses to touch one that has gone
-- ahead, and the script ends there: whatever it may have done before must be safe to leave so. (A node to which a slot is
-- being moved runs none: see cluster.go.)
--   L     a string: "1 s TICKET ID REST" for a line of one claim, which is held, and whose deadline is the key's expiry;
--         otherwise "1 m KIND LIMIT HELD USED EXPIRES": how many claims are held, with how many units, and when (in
--         milliseconds) the four keys expire unless somebody prolongs them. LIMIT is that of all claims. If they differ,
--         it is the least of those that have joined since the queue was empty, with a 0 in front. A client of an earlier
--         version takes that for the limit of all, so that it grants too little rather than too much, and drops the 0.
--   L:r   a hash: ID -> RECORD, or "t" for the tombstone of a claim whose Join may still come
--   L:o   a sorted set: ID by ticket. The held claims are its first HELD members.
--   L:d   a sorted set: ID by deadline in milliseconds, tombstones too. At that millisecond the claim is out.
-- REST is "SINCE KIND LIMIT UNITS TTL GRACE CHANNEL ABOUT", and RECORD is "TICKET REST". Deadline and state are not in it.
-- Tickets have 16 digits, and IDs 32.
--
-- Invariants
--   A ticket enters the order only above all that are there: held is what comes first, so anything else would be held
--   by it.
--   Every ID in the order has a record and a deadline, and every ID with a deadline has a record or a tombstone. L exists
--   while there are any, so that a quick Join cannot get past them.
--   The sum of the units of the first HELD members is USED. When a claim is granted, USED is not above its own limit.
--   Every key is given an expiry when it is made.

-- What counts are the calls, and numbers that become text without need: Lua and Redis write each of them as a fraction,
-- which takes as long as a small command. string.format('%d') does not.
local moment = string.sub(now, 1, -4)
local ms = tonumber(moment)
local news = {} -- what to publish: channel -> lines

-- How long the guard still lasts, in milliseconds.
local guarded = 0
if guard > 0 then
	local seen = redis.call('GET', runKey)
	if seen and string.sub(seen, 1, 2) ~= '1 ' then return 'newer' end
	local began = seen and string.sub(seen, 1, #run) == run and tonumber(string.sub(seen, #run + 1))
	if not began or began > ms then -- another run, a loss of data, or a clock that was set back: it would last as much longer
		began = ms
		redis.call('SET', runKey, run .. moment)
	end
	guarded = math.max(0, began + guard - ms)
end

-- parse takes a record apart.
local function parse(record)
	return string.match(record, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
end

-- load reads a line, but for text, what is written at L, if the caller has read that. If the line has a refusal, nothing
-- may be done with it but to say so.
local function load(L, text)
	local l = {L = L, R = L .. ':r', O = L .. ':o', D = L .. ':d', held = 0, used = 0, expires = 0}
	if text == nil then text = redis.pcall('GET', L) end
	if type(text) == 'table' then
		if not string.find(text.err, 'WRONGTYPE', 1, true) then redis.call('GET', L) end -- which fails, and says why
		l.refusal = 'foreign'
		return l
	end
	if not text then return l end
	local kind, limit, held, used, expires = string.match(text, '^1 m (%d+) (%d+) (%d+) (%d+) (%d+)$')
	if kind then
		l.text, l.kind, l.limit = text, kind, tonumber(limit)
		l.held, l.used, l.expires = tonumber(held), tonumber(used), tonumber(expires)
		l.mixed = string.find(limit, '^0%d') -- "0" alone is a line of tombstones only
		return l
	end
	local ticket, id, more = string.match(text, '^1 s (%d+) (%x+) (.*)$')
	if ticket then
		l.solo, l.record = id, ticket .. ' ' .. more
		local _, _, kind, limit, units = parse(l.record)
		l.kind, l.limit, l.held, l.used = kind, tonumber(limit), 1, tonumber(units)
		if units then return l end
	end
	local version = string.match(text, '^(%d+) ')
	l.refusal = version and version ~= '1' and 'newer' or 'foreign'
	return l
end

-- stay makes sure that the line's keys outlive this deadline. They do by half of the time that the claim was given, so
-- that not every Keep has to come back to it. made says that one of the keys may be new.
local function stay(l, deadline, px, made)
	if deadline > l.expires or made then
		l.expires = math.max(l.expires, deadline + math.floor(px / 2))
		local at = string.format('%d', l.expires)
		redis.call('PEXPIREAT', l.R, at)
		redis.call('PEXPIREAT', l.O, at)
		redis.call('PEXPIREAT', l.D, at)
	end
end

-- unfold gives a line the form for many. Whatever lies behind a first key that is missing, or is a line of one, was left
-- over when somebody took the first key alone (an operator, an eviction): it must not come to stand in this line.
local function unfold(l)
	if l.text then return end
	redis.call('DEL', l.R, l.O, l.D)
	l.text = '' -- settle writes it
	if not l.solo then return end
	local ticket, _, _, _, _, ttl, grace = parse(l.record)
	local px = ttl + grace
	local left = redis.call('PTTL', l.L)
	local time = redis.call('TIME') -- after PTTL: before Redis 7.2 time goes on in a script, and a deadline may be late, never early
	if left < 0 then left = px end -- somebody took the expiry away
	local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + left + 1
	redis.call('HSET', l.R, l.solo, l.record)
	redis.call('ZADD', l.O, ticket, l.solo)
	redis.call('ZADD', l.D, string.format('%d', deadline), l.solo)
	l.solo, l.record = nil, nil
	stay(l, deadline, px, true)
end

-- record is what is written of a claim: nil if nothing, "t" if it has a tombstone.
local function record(l, id)
	if l.solo then return l.solo == id and l.record or nil end
	return l.text and redis.call('HGET', l.R, id) or nil
end

-- remove takes a claim or a tombstone out.
local function remove(l, id)
	if l.solo then
		redis.call('DEL', l.L)
		l.solo, l.record, l.held, l.used = nil, nil, 0, 0
		return
	end
	local rank = redis.call('ZRANK', l.O, id)
	if rank then
		if l.held == 1 and rank == 0 then
			l.held, l.used = 0, 0
		elseif rank < l.held then
			local _, _, _, _, units = parse(redis.call('HGET', l.R, id))
			l.held, l.used = l.held - 1, l.used - units
		end
		redis.call('ZREM', l.O, id)
	end
	redis.call('HDEL', l.R, id)
	redis.call('ZREM', l.D, id)
end

-- earliest is who runs out first, and when.
local function earliest(l)
	local first = redis.call('ZRANGE', l.D, '0', '0', 'WITHSCORES')
	return first[1], tonumber(first[2])
end

-- sweep removes what is out. A line of one claim is removed by Redis itself.
local function sweep(l)
	if not l.text then return end
	while true do
		local id = redis.call('ZRANGEBYSCORE', l.D, '-inf', moment, 'LIMIT', '0', '1')[1]
		if not id then break end
		remove(l, id)
	end
end

-- tell notes news for the process that a claim belongs to. In a cluster its channel is written TAG/CHANNEL, and there is
-- one for each slot.
local function tell(l, channel, word, id, ticket)
	local root, tenant = string.match(l.L, '^(.-{)([^|]*)|')
	local tag, own = string.match(channel, '^([^/]*)/(.*)$')
	channel = tag and root .. tag .. '}:push:' .. tenant .. ':' .. own or root .. tenant .. '}:push:' .. channel
	local lines = news[channel] or {command = tag and 'SPUBLISH' or 'PUBLISH'}
	news[channel], lines[#lines + 1] = lines, word .. ' ' .. id .. ' ' .. ticket
end

-- settle grants all who fit, and writes down what has changed. Whoever is granted is told, but for own, who gets an
-- answer.
local function settle(l, own)
	if not l.text then return end -- nobody, or one who holds
	while guarded == 0 and (l.held == 0 or l.mixed or l.used < l.limit) do
		local rank = string.format('%d', l.held)
		local id = redis.call('ZRANGE', l.O, rank, rank)[1]
		if not id then break end
		local was = redis.call('HGET', l.R, id)
		local ticket, since, after, limit, units, channel = string.match(was, '^(%d+) (%d+)() %d+ (%d+) (%d+) %d+ %d+ (%S+) ')
		if l.used + units > tonumber(limit) then break end
		l.held, l.used = l.held + 1, l.used + units
		if since ~= moment then redis.call('HSET', l.R, id, ticket .. ' ' .. moment .. string.sub(was, after)) end
		if id ~= own then tell(l, channel, 'h', id, ticket) end
	end
	if l.held == 0 and redis.call('EXISTS', l.D) == 0 then
		redis.call('DEL', l.L)
		l.text = nil
		return
	end
	local form = l.mixed and '1 m %s 0%d %d %d %d' or '1 m %s %d %d %d %d'
	local text = string.format(form, l.kind, l.limit, l.held, l.used, l.expires)
	if text ~= l.text then redis.call('SET', l.L, text, 'PXAT', string.format('%d', l.expires)) end
	l.text = text
end

-- publish tells everyone, each process once. It comes last: an answer that says so may be overtaken by it.
local function publish()
	for channel, lines in pairs(news) do redis.pcall(lines.command, channel, table.concat(lines, '\n')) end
end

-- prolong gives a claim that stands its time anew. It always writes something: a WAIT is about the last write of its
-- connection (on some servers), and the grant that it is to vouch for may be another's.
local function prolong(l, id, px)
	if l.solo then
		redis.call('PEXPIRE', l.L, px)
		return
	end
	redis.call('ZREM', l.D, '') -- a server that is full refuses ZADD as the first write of a script, and only as the first
	local deadline = ms + px + 1
	local text = string.format('%d', deadline)
	if redis.call('ZADD', l.D, 'CH', text, id) == 0 then -- it was prolonged in this millisecond before
		redis.call('ZADD', l.D, deadline + 1, id)
		redis.call('ZADD', l.D, text, id)
	end
	stay(l, deadline, px)
end

-- standing says where a claim stands: "h TICKET AHEAD", or "w TICKET AHEAD AGAIN" with how many milliseconds may pass
-- until something runs out. rank is how many are ahead, if the caller knows.
local function standing(l, id, ticket, rank)
	rank = l.solo and 0 or rank or redis.call('ZRANK', l.O, id)
	if rank < l.held then return string.format('h %s %d', ticket, rank) end
	local _, deadline = earliest(l)
	local again = deadline - ms
	if guarded > 0 then again = math.min(again, guarded) end
	return string.format('w %s %d %d', ticket, rank, again)
end

-- show describes a place: "STATE LEFT AGO ID RECORD", with times in milliseconds.
local function show(l, rank, id, was, deadline)
	local _, since = parse(was)
	return table.concat({rank < l.held and 'h' or 'w', math.max(0, deadline - ms - 1), math.max(0, ms - since), id, was}, ' ')
end

-- first describes the head of the line; empty if there is none.
local function first(l)
	if l.solo then return show(l, 0, l.solo, l.record, ms + redis.call('PTTL', l.L) + 1) end
	local id = redis.call('ZRANGE', l.O, '0', '0')[1]
	if not id then return '' end
	return show(l, 0, id, redis.call('HGET', l.R, id), tonumber(redis.call('ZSCORE', l.D, id)))
end
