-- trust.lua: declares to the node that its next restart keeps all data, if it happens within ten minutes. For
-- operators, before they stop it.
--
-- KEYS  1  the record (see node.lua)
-- ARGV  1  see node.lua
-- Result   "granted"

--#include node.lua
local time = redis.call('TIME')
trusted = time[1] * 1000000 + time[2] + 600000000
redis.call('SET', KEYS[1], string.gsub(head, 'v $', 't ') .. mark .. string.format(' %d %d', since, trusted))
return 'granted' .. status
