-- queue.lua: the layout of a queue, and the functions that read and change it. All scripts that use queues include it.
--
-- Expects    now       the server's time in microseconds, as text of 16 digits, read once
--            guard     for how many milliseconds after a restart nothing is granted; 0: no guard
--            run       with a guard: the run of the server that the caller is connected to: "1 RUN "
--            runKey    with a guard: the key of the run and its start: "1 RUN MILLISECONDS". If its version is newer,
--                      the script ends with "newer".
--
-- A queue has four keys. The last three have the name of the first one with a suffix. They are not among the scripts'
-- KEYS: each key would cost as much as a small command, and most queues have only the first. They share its hash tag,
-- so that they are in the same slot. While a slot is being moved in a cluster, the source node refuses to access a key
-- that was moved already, and the script ends there: it must be safe to stop after any write before that. (The target
-- node runs no scripts: see cluster.go.)
--   KEY    a string: "1 s TICKET ID REST" for a queue of one claim, which is held, and whose deadline is the key's
--          expiry; otherwise "1 m KIND LIMIT HELD USED EXPIRES": how many claims are held, with how many units, and
--          when (in milliseconds) the four keys expire unless that is extended. LIMIT is the limit of all claims. If
--          limits differ, it is the least of those that have joined since the queue was empty, after a 0. A client of
--          an earlier version takes it for the limit of all claims, so that it grants too little rather than too much,
--          and drops the 0.
--   KEY:r  a hash: ID -> RECORD, or "t" for the tombstone of a claim whose Join may still arrive
--   KEY:o  a sorted set: ID by ticket. The held claims are its first HELD members.
--   KEY:d  a sorted set: ID by deadline in milliseconds, tombstones too. At that millisecond the claim has expired.
-- REST is "SINCE KIND LIMIT UNITS TTL GRACE CHANNEL ABOUT", and RECORD is "TICKET REST". Neither has the deadline or
-- the state. Tickets have 16 digits, and IDs 32.
--
-- Invariants
--   A claim enters the order only with a higher ticket than all others there. With a lower one it could be among the
--   first HELD members, and so be held.
--   Every ID in the order has a record and a deadline, and every ID with a deadline has a record or a tombstone. KEY
--   exists while there are any, so that the fast path of join.lua cannot bypass them.
--   USED is the sum of the units of the first HELD members. When a claim is granted, it is at most that claim's limit.
--   Every key of a queue is given an expiry when it is created.

-- The cost of a script is its calls, and its implicit conversions of numbers to text: Lua and Redis format each such
-- number as a fraction, which takes as long as a small command. string.format('%d') does not.
local nowText = string.sub(now, 1, -4) -- in milliseconds
local nowMillis = tonumber(nowText)
local messages = {} -- to publish: channel -> lines

-- How long the guard still lasts, in milliseconds.
local guardLeft = 0
if guard > 0 then
	local stored = redis.call('GET', runKey)
	if stored and string.sub(stored, 1, 2) ~= '1 ' then return 'newer' end
	local started = stored and string.sub(stored, 1, #run) == run and tonumber(string.sub(stored, #run + 1))
	-- Another run, a loss of data, or a clock that was set back, which would make the guard last longer by as much.
	if not started or started > nowMillis then
		started = nowMillis
		redis.call('SET', runKey, run .. nowText)
	end
	guardLeft = math.max(0, started + guard - nowMillis)
end

-- parse returns the fields of a record.
local function parse(record)
	return string.match(record, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
end

-- load reads a queue. text is the value of its key, if the caller has read it. If the queue has a refusal, the script
-- must return that, and not use the queue.
local function load(key, text)
	local q = {
		key = key, records = key .. ':r', order = key .. ':o', deadlines = key .. ':d', held = 0, used = 0, expires = 0,
	}
	if text == nil then text = redis.pcall('GET', key) end
	if type(text) == 'table' then
		if not string.find(text.err, 'WRONGTYPE', 1, true) then redis.call('GET', key) end -- fails with the error
		q.refusal = 'foreign'
		return q
	end
	if not text then return q end
	local kind, limit, held, used, expires = string.match(text, '^1 m (%d+) (%d+) (%d+) (%d+) (%d+)$')
	if kind then
		q.text, q.kind, q.limit = text, kind, tonumber(limit)
		q.held, q.used, q.expires = tonumber(held), tonumber(used), tonumber(expires)
		q.mixed = string.find(limit, '^0%d') -- "0" alone is a queue of tombstones only
		return q
	end
	local ticket, id, rest = string.match(text, '^1 s (%d+) (%x+) (.*)$')
	if ticket then
		q.solo, q.soloRecord = id, ticket .. ' ' .. rest
		local _, _, kind, limit, units = parse(q.soloRecord)
		q.kind, q.limit, q.held, q.used = kind, tonumber(limit), 1, tonumber(units)
		if units then return q end
	end
	local version = string.match(text, '^(%d+) ')
	q.refusal = version and version ~= '1' and 'newer' or 'foreign'
	return q
end

-- extendKeys makes sure that the queue's keys outlive a deadline. It adds half of px, the time that the claim was
-- given, so that not every Keep has to set the expiry again. created reports that one of the keys may be new.
local function extendKeys(q, deadline, px, created)
	if deadline > q.expires or created then
		q.expires = math.max(q.expires, deadline + math.floor(px / 2))
		local expiry = string.format('%d', q.expires)
		redis.call('PEXPIREAT', q.records, expiry)
		redis.call('PEXPIREAT', q.order, expiry)
		redis.call('PEXPIREAT', q.deadlines, expiry)
	end
end

-- expand converts a queue to the form for several claims. If its key is missing or has the form for one claim, the
-- other three keys are left over from a queue whose first key alone was removed (by an operator, by eviction): their
-- entries must not get into this queue.
local function expand(q)
	if q.text then return end
	redis.call('DEL', q.records, q.order, q.deadlines)
	q.text = '' -- grantAll writes it
	if not q.solo then return end
	local ticket, _, _, _, _, ttl, grace = parse(q.soloRecord)
	local px = ttl + grace
	local left = redis.call('PTTL', q.key)
	-- After PTTL: before Redis 7.2 time goes on during a script, and a deadline may be late, but never early.
	local time = redis.call('TIME')
	if left < 0 then left = px end -- the expiry was removed
	local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + left + 1
	redis.call('HSET', q.records, q.solo, q.soloRecord)
	redis.call('ZADD', q.order, ticket, q.solo)
	redis.call('ZADD', q.deadlines, string.format('%d', deadline), q.solo)
	q.solo, q.soloRecord = nil, nil
	extendKeys(q, deadline, px, true)
end

-- recordOf returns the record of a claim, "t" if it has a tombstone, and nil if it has neither.
local function recordOf(q, id)
	if q.solo then return q.solo == id and q.soloRecord or nil end
	return q.text and redis.call('HGET', q.records, id) or nil
end

-- remove removes a claim or a tombstone.
local function remove(q, id)
	if q.solo then
		redis.call('DEL', q.key)
		q.solo, q.soloRecord, q.held, q.used = nil, nil, 0, 0
		return
	end
	local rank = redis.call('ZRANK', q.order, id)
	if rank then
		if q.held == 1 and rank == 0 then
			q.held, q.used = 0, 0
		elseif rank < q.held then
			local _, _, _, _, units = parse(redis.call('HGET', q.records, id))
			q.held, q.used = q.held - 1, q.used - units
		end
		redis.call('ZREM', q.order, id)
	end
	redis.call('HDEL', q.records, id)
	redis.call('ZREM', q.deadlines, id)
end

-- earliest returns the ID with the earliest deadline, and that deadline.
local function earliest(q)
	local first = redis.call('ZRANGE', q.deadlines, '0', '0', 'WITHSCORES')
	return first[1], tonumber(first[2])
end

-- removeExpired removes claims and tombstones that have expired. Redis itself removes a queue of one claim.
local function removeExpired(q)
	if not q.text then return end
	while true do
		local id = redis.call('ZRANGEBYSCORE', q.deadlines, '-inf', nowText, 'LIMIT', '0', '1')[1]
		if not id then break end
		remove(q, id)
	end
end

-- notify adds a message for the process of a claim. In a cluster a process has a channel for each slot, written
-- TAG/CHANNEL.
local function notify(q, channel, word, id, ticket)
	local root, tenant = string.match(q.key, '^(.-{)([^|]*)|')
	local tag, process = string.match(channel, '^([^/]*)/(.*)$')
	channel = tag and root .. tag .. '}:push:' .. tenant .. ':' .. process or root .. tenant .. '}:push:' .. channel
	local lines = messages[channel] or {command = tag and 'SPUBLISH' or 'PUBLISH'}
	messages[channel], lines[#lines + 1] = lines, word .. ' ' .. id .. ' ' .. ticket
end

-- grantAll grants all claims that fit, and writes what has changed. It notifies their clients, except that of the claim
-- own, which gets the script's response.
local function grantAll(q, own)
	if not q.text then return end -- no claim, or one that is held
	while guardLeft == 0 and (q.held == 0 or q.mixed or q.used < q.limit) do
		local rank = string.format('%d', q.held)
		local id = redis.call('ZRANGE', q.order, rank, rank)[1]
		if not id then break end
		local stored = redis.call('HGET', q.records, id)
		local ticket, since, rest, limit, units, channel =
			string.match(stored, '^(%d+) (%d+)() %d+ (%d+) (%d+) %d+ %d+ (%S+) ')
		if q.used + units > tonumber(limit) then break end
		q.held, q.used = q.held + 1, q.used + units
		if since ~= nowText then
			redis.call('HSET', q.records, id, ticket .. ' ' .. nowText .. string.sub(stored, rest))
		end
		if id ~= own then notify(q, channel, 'h', id, ticket) end
	end
	if q.held == 0 and redis.call('EXISTS', q.deadlines) == 0 then
		redis.call('DEL', q.key)
		q.text = nil
		return
	end
	local form = q.mixed and '1 m %s 0%d %d %d %d' or '1 m %s %d %d %d %d'
	local text = string.format(form, q.kind, q.limit, q.held, q.used, q.expires)
	if text ~= q.text then redis.call('SET', q.key, text, 'PXAT', string.format('%d', q.expires)) end
	q.text = text
end

-- publish sends the messages, one to each process. It is called after all writes. A message may arrive before a
-- response that reports the same.
local function publish()
	for channel, lines in pairs(messages) do redis.pcall(lines.command, channel, table.concat(lines, '\n')) end
end

-- extend gives a claim that has not expired a new deadline. It always writes something: on some servers a WAIT is about
-- the last write of its own connection, and the grant that it has to confirm may have been made on another one.
local function extend(q, id, px)
	if q.solo then
		redis.call('PEXPIRE', q.key, px)
		return
	end
	redis.call('ZREM', q.deadlines, '') -- a server that is full refuses ZADD only as the first write of a script
	local deadline = nowMillis + px + 1
	local text = string.format('%d', deadline)
	if redis.call('ZADD', q.deadlines, 'CH', text, id) == 0 then -- it was extended in this millisecond before
		redis.call('ZADD', q.deadlines, deadline + 1, id)
		redis.call('ZADD', q.deadlines, text, id)
	end
	extendKeys(q, deadline, px)
end

-- status returns the status of a claim: "h TICKET AHEAD", or "w TICKET AHEAD RECHECK", where RECHECK is how many
-- milliseconds may pass until an entry expires or the guard ends. rank is the number of claims ahead, if known.
local function status(q, id, ticket, rank)
	rank = q.solo and 0 or rank or redis.call('ZRANK', q.order, id)
	if rank < q.held then return string.format('h %s %d', ticket, rank) end
	local _, deadline = earliest(q)
	local recheck = deadline - nowMillis
	if guardLeft > 0 then recheck = math.min(recheck, guardLeft) end
	return string.format('w %s %d %d', ticket, rank, recheck)
end

-- describe returns an entry: "STATE LEFT AGO ID RECORD", with times in milliseconds.
local function describe(q, rank, id, stored, deadline)
	local _, since = parse(stored)
	return table.concat({
		rank < q.held and 'h' or 'w', math.max(0, deadline - nowMillis - 1), math.max(0, nowMillis - since), id, stored,
	}, ' ')
end

-- describeFirst returns the first entry of the queue, or "" if there is none.
local function describeFirst(q)
	if q.solo then return describe(q, 0, q.solo, q.soloRecord, nowMillis + redis.call('PTTL', q.key) + 1) end
	local id = redis.call('ZRANGE', q.order, '0', '0')[1]
	if not id then return '' end
	return describe(q, 0, id, redis.call('HGET', q.records, id), tonumber(redis.call('ZSCORE', q.deadlines, id)))
end
