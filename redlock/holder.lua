-- holder.lua: who has a lock. It stands behind node.lua in the scripts that ask.
--
-- The key of a lock has the claim's value, as the published algorithm sets it, and when its ticket is drawn " ticket N"
-- behind that. A value never ends like this by itself. Whatever else is there is another's: it is taken, and what is no
-- string counts as an empty one. What ends with more digits than a ticket has is another's too.

-- owns says whether what was found is this value's, with a ticket or without.
local function owns(text, value)
	return text == value or text and string.sub(text, 1, #value + 8) == value .. ' ticket '
end

-- titled is a value with its ticket; 0: it has none.
local function titled(value, ticket)
	if ticket == '0' then return value end
	return value .. ' ticket ' .. ticket
end

-- parts takes apart what was found.
local function parts(text)
	local value, ticket = string.match(text, '^(.*) ticket (%d+)$')
	if not value or #ticket > 16 then return text, '0' end
	return value, ticket
end

-- credible says whether a ticket may be believed: one that is a day ahead of the clock would leave no room for others.
local function credible(ticket)
	local time = redis.call('TIME')
	return ticket <= 9007199254740000 and ticket <= time[1] * 1000000 + time[2] + 86400000000
end

-- denied is the answer about a key that is taken: LEFT in milliseconds, -1 if it has no end, TICKET, and of the VALUE as
-- much as is of use.
local function denied(key, text)
	local value, ticket = parts(text or '')
	return string.format('denied%s %d %s ', standing, redis.call('PTTL', key), ticket) .. string.sub(value, 1, 4096)
end

