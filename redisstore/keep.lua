-- keep.lua: extends claims, and returns their statuses. It also checks whether the server is still the one that raised
-- the mark: for that each new connection runs it first, without any claim.
--
-- KEYS  the queue's key of each claim (see queue.lua); then the mark; then the key of the server's run and its start
-- ARGV  1, 2  the server's run, "1 RUN ", and the guard in milliseconds
--       then for each claim its ID, its ttl and grace together in milliseconds, and its current REST from KIND on (see
--       queue.lua)
-- Result      a list: "ok", then for each claim "h TICKET AHEAD", "w TICKET AHEAD RECHECK", "g", "newer" or "foreign";
--             only "newer" or "foreign" if the stored run is of a newer version or of another program; only "foreign"
--             if the mark is no number
--
-- Invariants
--   After a change of run, data may have been lost, and the mark with it: then it jumps to a minute ahead of the clock.
--   Not to a minute ahead of itself: several jumps would add up to what a loss of data falls behind.
--   A mark that was set far ahead by hand is left as it is, and the claims are kept.
--   A claim that has expired is not extended. Units never grow. No other claims are changed, except those that have
--   expired or are granted.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[1], tonumber(ARGV[2]), KEYS[#KEYS]

local storedRun = redis.call('GET', runKey)
if storedRun and string.sub(storedRun, 1, 2) ~= '1 ' then
	return {string.match(storedRun, '^%d+ ') and 'newer' or 'foreign'}
end
local changed = not storedRun or string.sub(storedRun, 1, #run) ~= run
if changed or #KEYS == 2 then -- for a new connection always: a promotion does not change the run
	local markKey = KEYS[#KEYS - 1]
	local mark = tonumber(redis.call('GET', markKey) or 0)
	if not mark then return {'foreign'} end
	if mark <= 4102444800000000 or mark - now <= 86400000000 then -- otherwise join.lua refuses it
		redis.call('SET', markKey, string.format('%d', math.max(mark + 1, now + 60000000)))
	end
	if changed then redis.call('SET', runKey, run .. string.sub(now, 1, -4)) end
end

-- keepAlone is the fast path: the claim is alone in its queue, and its record does not change. Else it returns nil.
-- "1 s TICKET ID SINCE " has 68 characters: SINCE has 13 digits until the year 2286.
local function keepAlone(key, id, px, rest)
	local text = redis.call('GET', key)
	if text and #text == 68 + #rest and string.sub(text, 1, 4) == '1 s ' and string.sub(text, 22, 53) == id
		and string.sub(text, 69) == rest then
		redis.call('PEXPIRE', key, px)
		return 'h ' .. string.sub(text, 5, 20) .. ' 0'
	end
end
--#include queue.lua

local function keep(q, id, px, rest)
	if q.refusal then return q.refusal end
	local newUnits, newAbout = string.match(rest, '^%d+ %d+ (%d+) %d+ %d+ %S+ (.*)$')
	removeExpired(q)
	local stored = recordOf(q, id)
	if not stored or stored == 't' then
		grantAll(q)
		return 'g'
	end
	local ticket, since, kind, limit, units, ttl, grace, channel, about = parse(stored)
	newUnits = math.min(tonumber(newUnits), units)
	if newUnits < tonumber(units) then
		if q.solo or redis.call('ZRANK', q.order, id) < q.held then q.used = q.used - (units - newUnits) end
	end
	extend(q, id, px)
	if newUnits < tonumber(units) or newAbout ~= about then
		local newRest = table.concat({since, kind, limit, newUnits, ttl, grace, channel, newAbout}, ' ')
		if q.solo then
			redis.call('SET', q.key, '1 s ' .. ticket .. ' ' .. id .. ' ' .. newRest, 'KEEPTTL')
		else
			redis.call('HSET', q.records, id, ticket .. ' ' .. newRest)
		end
	end
	grantAll(q, id)
	return status(q, id, ticket)
end

local results = {'ok'}
for i = 1, #KEYS - 2 do
	local key, id, px, rest = KEYS[i], ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
	results[i + 1] = keepAlone(key, id, px, rest) or keep(load(key), id, tonumber(px), rest)
end
publish()
return results
