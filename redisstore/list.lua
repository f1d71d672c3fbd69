-- list.lua: says who stands in some lines.
--
-- KEYS  L of each line (see line.lua); then where the server's run and its beginning are kept
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       3     "all" for every place, "any" only for whether there are any
-- Result      "newer" for what is written of the run; otherwise for each line: "newer", "foreign", or with "any" 0 or 1,
--             or with "all" a list of places (see show in line.lua), in order

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[#KEYS]
--#include line.lua

-- places lists a line that is written in the form for many.
local function places(l)
	local records, deadlines, list = {}, {}, {}
	local flat = redis.call('HGETALL', l.R)
	for i = 1, #flat, 2 do records[flat[i]] = flat[i + 1] end
	flat = redis.call('ZRANGE', l.D, 0, -1, 'WITHSCORES')
	for i = 1, #flat, 2 do deadlines[flat[i]] = tonumber(flat[i + 1]) end
	for i, id in ipairs(redis.call('ZRANGE', l.O, 0, -1)) do
		list[i] = show(l, i - 1, id, records[id], deadlines[id])
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
			answer = l.solo and {first(l)} or l.text and places(l) or {}
		end
	end
	answers[i] = answer
end
publish()
return answers
