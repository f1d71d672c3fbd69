-- take.lua: acquires a lock if it is free.
--
-- KEYS  1  the record (see node.lua)
--       2  the lock's key
--       3  the value's tombstone
-- ARGV  1  see node.lua
--       2  the value: unique for each try of each claim, and the same at all nodes
--       3  how long the key lives, in milliseconds
--       4  the ticket that is proposed; 0: none
-- Result   "granted" with the lock's ticket, 0 if the proposal was not accepted; "novote", "buried", or "denied" with
--          the holder; the mark in it is that from before
--
-- Invariants
--   A key is set only if it is missing. A value that has the key already is granted it again, with the ticket it has.
--   A ticket is accepted only above the mark, which never falls.

--#include node.lua
--#include holder.lua
if not votes then return 'novote' .. status end
if not found[2] then
	if found[3] and redis.call('EXISTS', KEYS[2]) == 0 then return 'buried' .. status end
	local ticket, number = '0', tonumber(ARGV[4])
	if number > tonumber(mark) and credible(number) then ticket = ARGV[4] end
	if redis.call('SET', KEYS[2], withTicket(ARGV[2], ticket), 'NX', 'PX', ARGV[3]) then
		if ticket ~= '0' then redis.call('SET', KEYS[1], head .. ticket .. tail) end
		return 'granted' .. status .. ' ' .. ticket
	end
end
if not owns(found[2], ARGV[2]) then return denied(KEYS[2], found[2]) end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local _, ticket = splitTicket(found[2])
return 'granted' .. status .. ' ' .. ticket
