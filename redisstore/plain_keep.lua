-- plain_keep.lua: extends locks that are still held.
--
-- KEYS  the key of each lock
-- ARGV  for each: EXPECTED and MORE (see plain.lua), and ttl and grace together in milliseconds
-- Result  for each 1 if it is held, 0 if it is not

local results = {}
for i, key in ipairs(KEYS) do
	local value = valueOf(key)
	results[i] = value and owns(value, ARGV[3 * i - 2], ARGV[3 * i - 1]) and 1 or 0
	if results[i] == 1 then redis.call('PEXPIRE', key, ARGV[3 * i]) end
end
return results
