-- key.lua: the fence. It stands before what is written, in one script with it.
--
-- KEYS  the last is the fence's, and is taken off
-- ARGV  the last two are the token and whether it raises the fence ("raise"), and are taken off
--
-- Tokens are text of 20 digits: a script's numbers are doubles, and a token passes 2^53. Of digits, of which both have as
-- many, every collation makes the same order.
do
	local raise, token, fence = table.remove(ARGV), table.remove(ARGV), table.remove(KEYS)
	local none = string.rep('0', 20)
	local seen = redis.call('GET', fence) or none
	if #seen ~= 20 or string.find(seen, '%D') then
		return redis.error_reply('HOLDFASTFENCE the key of the fence holds what is no token of 20 digits')
	end
	if token == none or token < seen then return redis.error_reply('HOLDFASTSTALE ' .. seen) end
	if raise == 'raise' and seen < token then redis.call('SET', fence, token) end
end
