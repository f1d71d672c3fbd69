-- keep.lua: says of some claims that they live on, and where each stands. It also looks whether the server is still the
-- one that has raised the mark; each new connection begins with that, without any claim.
--
-- KEYS  L of the line of each claim (see queue.lua); then the mark; then where the server's run and its beginning are kept
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       then for each claim its ID, its ttl and grace together in milliseconds, and REST from KIND on (see queue.lua), as
--       its owner says it now
-- Result      an answer for each: "h TICKET AHEAD", "w TICKET AHEAD AGAIN", "g", "newer", "foreign";
--             before any, the word "newer" or "foreign" alone for what is written of the run, otherwise "ok"
--
-- Invariants
--   After a change of run data may have been lost, and the mark with it: then it jumps to a minute ahead of the clock.
--   Not to a minute ahead of itself: several jumps would add up to what a loss of data falls behind.
--   A mark that was set far ahead by hand is left as it is, and the claims are kept.
--   A claim that is out is not prolonged. Units never grow. Only the claim with that ID is touched, but for what is
--   out and whoever is granted.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[#KEYS]

local seen = redis.call('GET', runKey)
if seen and string.sub(seen, 1, 2) ~= '1 ' then
	return {string.match(seen, '^%d+ ') and 'newer' or 'foreign'}
end
local another = not seen or string.sub(seen, 1, #run) ~= run
if another or #KEYS == 2 then -- for a new connection always: a promotion does not change the run
	local mark = KEYS[#KEYS - 1]
	local last = tonumber(redis.call('GET', mark) or 0)
	if not last then return {'foreign'} end
	if last <= 4102444800000000 or last - now <= 86400000000 then -- otherwise join.lua refuses it
		redis.call('SET', mark, string.format('%d', math.max(last + 1, now + 60000000)))
	end
	if another then redis.call('SET', runKey, run .. string.sub(now, 1, -4)) end
end

-- quick is the quick way: the claim is alone in its line, and there is nothing new to say of it.
-- "1 s TICKET ID SINCE " has 68 characters: SINCE has 13 digits until the year 2286.
local function quick(L, id, px, rest)
	local text = redis.call('GET', L)
	if text and #text == 68 + #rest and string.sub(text, 1, 4) == '1 s ' and string.sub(text, 22, 53) == id
		and string.sub(text, 69) == rest then
		redis.call('PEXPIRE', L, px)
		return 'h ' .. string.sub(text, 5, 20) .. ' 0'
	end
end
--#include queue.lua

local function keep(l, id, px, rest)
	if l.refusal then return l.refusal end
	local asked, about = string.match(rest, '^%d+ %d+ (%d+) %d+ %d+ %S+ (.*)$')
	sweep(l)
	local was = record(l, id)
	if not was or was == 't' then
		settle(l)
		return 'g'
	end
	local ticket, since, kind, limit, units, ttl, grace, channel, said = parse(was)
	asked = math.min(tonumber(asked), units)
	if asked < tonumber(units) then
		if l.solo or redis.call('ZRANK', l.O, id) < l.held then l.used = l.used - (units - asked) end
	end
	prolong(l, id, px)
	if asked < tonumber(units) or about ~= said then
		local rest = table.concat({since, kind, limit, asked, ttl, grace, channel, about}, ' ')
		if l.solo then
			redis.call('SET', l.L, '1 s ' .. ticket .. ' ' .. id .. ' ' .. rest, 'KEEPTTL')
		else
			redis.call('HSET', l.R, id, ticket .. ' ' .. rest)
		end
	end
	settle(l, id)
	return standing(l, id, ticket)
end

local answers = {'ok'}
for i = 1, #KEYS - 2 do
	local L, id, px, rest = KEYS[i], ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
	answers[i + 1] = quick(L, id, px, rest) or keep(load(L), id, tonumber(px), rest)
end
publish()
return answers
