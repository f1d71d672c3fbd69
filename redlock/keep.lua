-- keep.lua: moves the end of locks that are held, and sets again what is missing, also at a node without a vote.
--
-- KEYS  1  the record (see node.lua)
--       2… for each lock its key, and the tombstone of its value
-- ARGV  1  see node.lua
--       2… for each lock the value, its ticket (0: none), and how long the key lives, in milliseconds
-- Result   a list with for each lock "kept", "repaired", "buried", or "denied" with who has it; not a list if node.lua ends
--          the script
--
-- Invariants
--   A key that is another's stays as it is, also one that is no string.
--   What is held is prolonged by a server that is full too, whatever else is missing there.

--#include node.lua
--#include holder.lua
local answers = {}
local function each(judge)
	for n = 1, (#KEYS - 1) / 2 do
		local value, ticket, px = ARGV[3 * n - 1], ARGV[3 * n], ARGV[3 * n + 1]
		answers[n] = answers[n] or judge(KEYS[2 * n], found[2 * n], found[2 * n + 1], value, titled(value, ticket), px)
	end
end

-- First what is held, and of that the end: a server that is full refuses SET as the first write of a script, and only as
-- the first.
each(function(key, text, _, value, full, px)
	if not owns(text, value) then return nil end
	redis.call('PEXPIRE', key, px)
	if text ~= full then redis.call('SET', key, full, 'KEEPTTL') end
	return 'kept' .. standing
end)
each(function(key, text, buried, _, full, px)
	if text then return denied(key, text) end
	if buried and redis.call('EXISTS', key) == 0 then return 'buried' .. standing end
	if redis.call('SET', key, full, 'NX', 'PX', px) then return 'repaired' .. standing end
	return denied(key, text)
end)
return answers
