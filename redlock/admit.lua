-- admit.lua: ends a quarantine that was served.
--
-- KEYS  1     the record (see node.lua)
-- ARGV  1     see node.lua
--       2, 3  which quarantine: the run in which it began, and when, in microseconds by the node's clock
--       4     the highest mark of a majority
-- Result      "granted"; "refused" if the node votes, or is in another quarantine, or has not served this one
--
-- Invariant: the mark never falls.

--#include node.lua
local same = status == string.format(' q %s %s %s 0', mark, ARGV[2], ARGV[3])
if votes or wait > 0 or not same then return 'refused' .. status end
if tonumber(ARGV[4]) > tonumber(mark) then mark = ARGV[4] end
if trusted == 0 then
	redis.call('SET', KEYS[1], ARGV[1] .. mark)
else
	redis.call('SET', KEYS[1], string.gsub(head, 'q $', 't ') .. mark .. string.format(' 0 %d', trusted))
end
return 'granted v ' .. mark
