-- break.lua: removes the claim with a ticket, notifies its client, and grants the claims that then fit. For operators.
--
-- KEYS  1     the queue's key (see queue.lua)
--       2     the key of the server's run and its start
-- ARGV  1     the ticket
--       2, 3  the server's run, "1 RUN ", and the guard in milliseconds
-- Result      1, "nobody", "newer", "foreign"

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[2], tonumber(ARGV[3]), KEYS[2]
--#include queue.lua

local q = load(KEYS[1])
if q.refusal then return q.refusal end
removeExpired(q)
local id = q.solo
if not id and q.text then
	id = redis.call('ZRANGEBYSCORE', q.order, ARGV[1], ARGV[1])[1]
end
local result = 'nobody'
if id then
	local ticket, _, _, _, _, _, _, channel = parse(recordOf(q, id))
	if tonumber(ticket) == tonumber(ARGV[1]) then
		remove(q, id)
		notify(q, channel, 'g', id, ticket)
		result = 1
	end
end
grantAll(q)
publish()
return result
