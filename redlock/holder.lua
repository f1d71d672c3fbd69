-- holder.lua: the holder of a lock. Scripts that read a lock include it after node.lua.
--
-- The key of a lock has the claim's value, as the published algorithm sets it, followed by " ticket N" when its ticket
-- is drawn. A value never ends like this by itself. Any other content is another client's, and the lock is then held.
-- If it is no string, it counts as an empty one. Content that ends with more digits than a ticket has is another
-- client's too.

-- owns reports whether text, the content of a key, is this value, with or without a ticket.
local function owns(text, value)
	return text == value or text and string.sub(text, 1, #value + 8) == value .. ' ticket '
end

-- withTicket returns a value with its ticket; 0: it has none.
local function withTicket(value, ticket)
	if ticket == '0' then return value end
	return value .. ' ticket ' .. ticket
end

-- splitTicket returns the value and the ticket of the content of a key; 0: it has none.
local function splitTicket(text)
	local value, ticket = string.match(text, '^(.*) ticket (%d+)$')
	if not value or #ticket > 16 then return text, '0' end
	return value, ticket
end

-- credible reports whether a ticket is acceptable: one a day ahead of the clock would leave no room for others.
local function credible(ticket)
	local time = redis.call('TIME')
	return ticket <= 9007199254740000 and ticket <= time[1] * 1000000 + time[2] + 86400000000
end

-- denied returns the response about a lock that is held: LEFT in milliseconds, -1 if it does not expire, TICKET, and as
-- much of VALUE as is of use.
local function denied(key, text)
	local value, ticket = splitTicket(text or '')
	return string.format('denied%s %d %s ', status, redis.call('PTTL', key), ticket) .. string.sub(value, 1, 4096)
end

