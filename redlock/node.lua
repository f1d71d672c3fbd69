-- node.lua: how a node stands. Every script begins with it: it is how a node knows that it has lost its data.
--
-- KEYS  1  the record
--       2… what else the script looks at
-- ARGV  1  what the record of a node that votes begins with, as the client knows it: "1 MAXTTL RUN v "
-- Gives    found     what is under KEYS; false where nothing is, and where it is no string
--          record    the record as it was found; false: there was none
--          head, mark, tail  which make up the record, one behind the other
--          votes     whether the node has a vote
--          since, trusted, wait  as below; wait is how long the quarantine still lasts, 0 if it is served or there is none
--          standing  what the answer says of it: " v MARK" with a vote, " q MARK RUN SINCE WAIT" without. It is how the
--                    node stood before the script did anything
-- Result   it ends the script with "newer", or with "mismatch MAXTTL" if the node belongs to another deployment
--
-- The record is one string, so that no part of it is lost alone:
--   1 MAXTTL RUN v MARK                 the node votes
--   1 MAXTTL RUN t MARK 0 TRUSTED       the same, and a restart before TRUSTED keeps all data: an operator says so
--   1 MAXTTL RUN q MARK SINCE TRUSTED   it is in quarantine since SINCE, or was and is not admitted yet; TRUSTED may be 0
-- RUN is what the server called itself when it wrote the record, and MARK is the highest ticket known here. All times are
-- in microseconds, and moments are by the node's own clock.
--
-- Invariants
--   A node without a record, or with that of another run which nobody vouched for, has no vote from the first script on.
--   A lock's key that holds another value than the claim's is read and nothing else.
--   Times and tickets have up to 16 digits: they are compared as numbers, and written with %d, never by Lua's own choice.

local found = redis.call('MGET', unpack(KEYS))
local record, head, mark, tail = found[1], ARGV[1], nil, ''
local votes, since, trusted, wait, standing = true, 0, 0, 0, nil
if record and string.sub(record, 1, #head) == head then
	mark = string.sub(record, #head + 1)
	standing = ' v ' .. mark
else
	local maxTTL, run = string.match(head, '^1 (%d+) (%S+) ')
	local time = redis.call('TIME')
	local now = time[1] * 1000000 + time[2]
	votes, since = false, now
	mark = string.format('%d', now + 60000000) -- no ticket came so far ahead of the clock by counting
	if record then
		local term, wrote, state, had, began, word = string.match(record, '^1 (%d+) (%S+) ([vtq]) (%d+) ?(%d*) ?(%d*)$')
		if not term then return 'newer' end
		if term ~= maxTTL then return 'mismatch ' .. term end
		mark, began, word = had, tonumber(began) or 0, tonumber(word) or 0
		if wrote == run or now < word then votes, since = state ~= 'q', began end
		if wrote == run then since, trusted = math.min(since, now), word end -- if the clock was set back, it begins again
	end
	standing = ' v ' .. mark
	if not votes then
		wait = math.max(0, since + maxTTL - now)
		standing = string.format(' q %s %s %d %d', mark, run, since, wait)
	end
	if not votes or trusted > 0 then tail = string.format(' %d %d', since, trusted) end
	head = string.format('1 %s %s %s ', maxTTL, run, not votes and 'q' or trusted > 0 and 't' or 'v')
	if record ~= head .. mark .. tail then redis.call('SET', KEYS[1], head .. mark .. tail) end
end

