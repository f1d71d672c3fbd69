-- keep.lua: extends locks that are held, and sets keys again that are missing, even if the node has no vote.
--
-- KEYS  1  the record (see node.lua)
--       2… for each lock its key, and the tombstone of its value
-- ARGV  1  see node.lua
--       2… for each lock the value, its ticket (0: none), and how long the key lives, in milliseconds
-- Result   a list with for each lock "kept", "repaired", "buried", or "denied" with the holder; not a list if node.lua
--          ends the script
--
-- Invariants
--   A key of another claim stays as it is, even if it is no string.
--   A server that is full extends what is held too, whatever else is missing there.

--#include node.lua
--#include holder.lua
local results = {}
local function each(judge)
	for n = 1, (#KEYS - 1) / 2 do
		local value, ticket, px = ARGV[3 * n - 1], ARGV[3 * n], ARGV[3 * n + 1]
		results[n] = results[n]
			or judge(KEYS[2 * n], found[2 * n], found[2 * n + 1], value, withTicket(value, ticket), px)
	end
end

-- First the locks that are held, and of each the expiry: a server that is full refuses SET as the first write of a
-- script, and only as the first.
each(function(key, text, _, value, full, px)
	if not owns(text, value) then return nil end
	redis.call('PEXPIRE', key, px)
	if text ~= full then redis.call('SET', key, full, 'KEEPTTL') end
	return 'kept' .. status
end)
each(function(key, text, tombstone, _, full, px)
	if text then return denied(key, text) end
	if tombstone and redis.call('EXISTS', key) == 0 then return 'buried' .. status end
	if redis.call('SET', key, full, 'NX', 'PX', px) then return 'repaired' .. status end
	return denied(key, text)
end)
return results
