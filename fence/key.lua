-- key.lua: the fence. It comes before the caller's script, in one script with it.
--
-- KEYS  the last is the fence's key, and is removed here
-- ARGV  the last two are the token and whether it raises the fence ("raise"), and are removed here
--
-- Tokens are texts of 20 digits: Lua's numbers are doubles, and tokens exceed 2^53. Texts of equally many digits have the
-- same order in every collation.
do
	local raise, token, fence = table.remove(ARGV), table.remove(ARGV), table.remove(KEYS)
	local none = string.rep('0', 20)
	local seen = redis.call('GET', fence) or none
	if #seen ~= 20 or string.find(seen, '%D') then
		return redis.error_reply('HOLDFASTFENCE the key of the fence does not hold a token of 20 digits')
	end
	if token == none or token < seen then return redis.error_reply('HOLDFASTSTALE ' .. seen) end
	if raise == 'raise' and seen < token then redis.call('SET', fence, token) end
end
