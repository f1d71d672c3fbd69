-- list.lua: returns the entries of some queues.
--
-- KEYS  each queue's key (see queue.lua); then the key of the server's run and its start
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       3     "any" to return only whether there are entries; otherwise a ticket, to return the entries after it
--       4     with a ticket: how many entries to return at most
-- Result      "newer" if the stored run is of a newer version; otherwise a list: for each queue "newer", "foreign", or
--             with "any" 0 or 1, or with a ticket a list of the number of all entries and the entries (see describe in
--             queue.lua), in order
--
-- Invariant: its cost grows with the number of entries that it returns or removes as expired, not with the length of
-- the queue.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[#KEYS]
--#include queue.lua

-- entries returns the number of all entries, and those after a ticket, up to a number of them.
local function entries(q, after, most)
	if q.solo then
		if tonumber((parse(q.soloRecord))) > tonumber(after) then return {1, describeFirst(q)} end
		return {1}
	end
	if not q.text then return {0} end
	local list = {redis.call('ZCARD', q.order)}
	local ids = redis.call('ZRANGEBYSCORE', q.order, '(' .. after, '+inf', 'LIMIT', '0', most)
	local rank = ids[1] and redis.call('ZRANK', q.order, ids[1])
	for i, id in ipairs(ids) do
		list[i + 1] = describe(
			q, rank + i - 1, id, redis.call('HGET', q.records, id), tonumber(redis.call('ZSCORE', q.deadlines, id)))
	end
	return list
end

local results = {}
for i = 1, #KEYS - 1 do
	local q = load(KEYS[i])
	local result = q.refusal
	if not result then
		removeExpired(q)
		grantAll(q)
		if ARGV[3] == 'any' then
			result = (q.solo or q.text and redis.call('EXISTS', q.order) == 1) and 1 or 0
		else
			result = entries(q, ARGV[3], ARGV[4])
		end
	end
	results[i] = result
end
publish()
return results
