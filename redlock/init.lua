-- init.lua: lets a fresh node vote at once. For operators who know that no lock was ever held there.
--
-- KEYS  1  the record (see node.lua)
-- ARGV  1  see node.lua
--       2  optional: a record to ignore, as if it had been deleted
-- Result   "granted", or "refused" if the node has another record

--#include node.lua
if record and record ~= ARGV[2] then return 'refused' .. status end
redis.call('SET', KEYS[1], ARGV[1] .. mark)
return 'granted v ' .. mark
