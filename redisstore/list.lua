-- list.lua: says who stands in some lines.
--
-- KEYS  L of each line (see queue.lua); then where the server's run and its beginning are kept
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       3     "any" only for whether there are any; otherwise a ticket, for the places behind it
--       4     with a ticket: how many places at most
-- Result      "newer" for what is written of the run; otherwise for each line: "newer", "foreign", or with "any" 0 or 1,
--             or with a ticket a list of how many stand in it, and the places (see show in queue.lua), in order
--
-- Invariant: what it costs grows with how many places it gives, not with how many there are, but for those who are out.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[#KEYS]
--#include queue.lua

-- places lists those behind a ticket, up to a number of them.
local function places(l, after, most)
	if l.solo then
		if tonumber((parse(l.record))) > tonumber(after) then return {1, first(l)} end
		return {1}
	end
	if not l.text then return {0} end
	local list = {redis.call('ZCARD', l.O)}
	local ids = redis.call('ZRANGEBYSCORE', l.O, '(' .. after, '+inf', 'LIMIT', '0', most)
	local rank = ids[1] and redis.call('ZRANK', l.O, ids[1])
	for i, id in ipairs(ids) do
		list[i + 1] = show(l, rank + i - 1, id, redis.call('HGET', l.R, id), tonumber(redis.call('ZSCORE', l.D, id)))
	end
	return list
end

local answers = {}
for i = 1, #KEYS - 1 do
	local l = load(KEYS[i])
	local answer = l.refusal
	if not answer then
		sweep(l)
		settle(l)
		if ARGV[3] == 'any' then
			answer = (l.solo or l.text and redis.call('EXISTS', l.O) == 1) and 1 or 0
		else
			answer = places(l, ARGV[3], ARGV[4])
		end
	end
	answers[i] = answer
end
publish()
return answers
