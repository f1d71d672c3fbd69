-- break.lua: takes out whoever has a ticket, tells him, and grants whoever now fits. For operators.
--
-- KEYS  1     L, the line (see queue.lua)
--       2     where the server's run and its beginning are kept
-- ARGV  1     the ticket
--       2, 3  the server's run, "1 RUN ", and the guard in milliseconds
-- Result      1, "nobody", "newer", "foreign"

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local run, guard, runKey = ARGV[2], tonumber(ARGV[3]), KEYS[2]
--#include queue.lua

local l = load(KEYS[1])
if l.refusal then return l.refusal end
sweep(l)
local id = l.solo
if not id and l.text then
	id = redis.call('ZRANGEBYSCORE', l.O, ARGV[1], ARGV[1])[1]
end
local answer = 'nobody'
if id then
	local ticket, _, _, _, _, _, _, channel = parse(record(l, id))
	if tonumber(ticket) == tonumber(ARGV[1]) then
		remove(l, id)
		tell(l, channel, 'g', id, ticket)
		answer = 1
	end
end
settle(l)
publish()
return answer
