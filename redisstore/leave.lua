-- leave.lua: removes a claim from its queue, held or waiting, and grants the claims that then fit.
--
-- KEYS  1  the queue's key (see queue.lua)
--       2  with a guard: the key of the server's run and its start
-- ARGV  1  what the value of the key begins with if the claim is alone: "1 s TICKET ID"; only "ID" without a ticket
--       2  optional: for how many milliseconds to leave a tombstone if the claim is not there
--       3  optional: the guard in milliseconds
--       4  optional: the server's run, "1 RUN "
-- Result   1, "newer", "foreign"
--
-- Invariants
--   No other claims are changed, except those that have expired or are granted. Leaving again neither renews nor
--   removes a tombstone.

-- The fast path: the claim is alone.
local head = redis.call('GETRANGE', KEYS[1], '0', '52')
if head == ARGV[1] then
	redis.call('DEL', KEYS[1])
	return 1
end

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local id, bury = string.sub(ARGV[1], -32), tonumber(ARGV[2] or 0)
local guard, run, runKey = tonumber(ARGV[3] or 0), ARGV[4], KEYS[2]
--#include queue.lua

local q = load(KEYS[1], #head > 0 and #head < 53 and head or nil) -- if it is shorter, it is the whole value
if q.refusal then return q.refusal end
removeExpired(q)
local stored = recordOf(q, id)
if stored and stored ~= 't' then
	remove(q, id)
elseif not stored and bury > 0 then
	expand(q)
	redis.call('HSET', q.records, id, 't')
	redis.call('ZADD', q.deadlines, nowMillis + bury + 1, id)
	q.kind, q.limit = q.kind or '0', q.limit or 0 -- a queue of tombstones only
	extendKeys(q, nowMillis + bury + 1, bury, true)
end
grantAll(q)
publish()
return 1
