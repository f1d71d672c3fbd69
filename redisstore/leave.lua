-- leave.lua: takes a claim out of its line, wherever it stands, and grants whoever now fits.
--
-- KEYS  1  L, the line (see queue.lua)
--       2  with a guard: where the server's run and its beginning are kept
-- ARGV  1  what the line begins with if the claim is alone in it: "1 s TICKET ID"; only "ID" if its ticket is not known
--       2  optional: for how many milliseconds it leaves a tombstone if it is not there
--       3  optional: the guard in milliseconds
--       4  optional: the server's run, "1 RUN "
-- Result   1, "newer", "foreign"
--
-- Invariants
--   Only the claim with that ID is touched, but for what is out and whoever is granted. A tombstone is not renewed by
--   leaving again, nor is it taken away.

-- The quick way: nobody else is there.
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

local l = load(KEYS[1], #head > 0 and #head < 53 and head or nil) -- what is shorter is all of it
if l.refusal then return l.refusal end
sweep(l)
local was = record(l, id)
if was and was ~= 't' then
	remove(l, id)
elseif not was and bury > 0 then
	unfold(l)
	redis.call('HSET', l.R, id, 't')
	redis.call('ZADD', l.D, ms + bury + 1, id)
	l.kind, l.limit = l.kind or '0', l.limit or 0 -- a line of tombstones only
	stay(l, ms + bury + 1, bury, true)
end
settle(l)
publish()
return 1
