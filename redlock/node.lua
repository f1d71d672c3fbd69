-- node.lua: the status of a node. Every script includes it first: it detects that the node has lost its data.
--
-- KEYS  1  the record
--       2… what else the script reads
-- ARGV  1  what the record of a node that votes begins with, as the client knows it: "1 MAXTTL RUN v "
-- Gives    found     the values of KEYS; false for a key that is missing or no string
--          record    the record as it was found; false: there was none
--          head, mark, tail  the parts of the record, in this order
--          votes     whether the node has a vote
--          since, trusted, wait  see below; wait is how long the quarantine still lasts, 0 if served or none
--          status    the part of each response about the node: " v MARK" with a vote, " q MARK RUN SINCE WAIT" without.
--                    It is the status before the script that includes this file changes anything.
-- Result   it ends the script with "newer", or with "mismatch MAXTTL" if the node belongs to another deployment
--
-- The record is one string, so that no part of it is lost alone:
--   1 MAXTTL RUN v MARK                 the node votes
--   1 MAXTTL RUN t MARK 0 TRUSTED       the same, and an operator declared: a restart before TRUSTED keeps all data
--   1 MAXTTL RUN q MARK SINCE TRUSTED   in quarantine since SINCE, until it is served and admitted; TRUSTED may be 0
-- RUN is the ID of the server's run that wrote the record, and MARK is the highest ticket known here. All times are in
-- microseconds, and points in time are by the node's own clock.
--
-- Invariants
--   A node without a record, or with that of another run whose restart was not trusted, has no vote from the first
--   script on.
--   A lock's key that holds another value than the claim's is read, but never changed, except by break.lua.
--   Times and tickets have up to 16 digits: compare them as numbers, and format them with %d, never by Lua's default.

local found = redis.call('MGET', unpack(KEYS))
local record, head, mark, tail = found[1], ARGV[1], nil, ''
local votes, since, trusted, wait, status = true, 0, 0, 0, nil
if record and string.sub(record, 1, #head) == head then
	mark = string.sub(record, #head + 1)
	status = ' v ' .. mark
else
	local maxTTL, run = string.match(head, '^1 (%d+) (%S+) ')
	local time = redis.call('TIME')
	local now = time[1] * 1000000 + time[2]
	votes, since = false, now
	mark = string.format('%d', now + 60000000) -- no ticket came so far ahead of the clock by counting
	if record then
		local storedMaxTTL, storedRun, state, storedMark, storedSince, storedTrusted =
			string.match(record, '^1 (%d+) (%S+) ([vtq]) (%d+) ?(%d*) ?(%d*)$')
		if not storedMaxTTL then return 'newer' end
		if storedMaxTTL ~= maxTTL then return 'mismatch ' .. storedMaxTTL end
		mark, storedSince, storedTrusted = storedMark, tonumber(storedSince) or 0, tonumber(storedTrusted) or 0
		if storedRun == run or now < storedTrusted then votes, since = state ~= 'q', storedSince end
		-- If the clock was set back, the quarantine starts again.
		if storedRun == run then since, trusted = math.min(since, now), storedTrusted end
	end
	status = ' v ' .. mark
	if not votes then
		wait = math.max(0, since + maxTTL - now)
		status = string.format(' q %s %s %d %d', mark, run, since, wait)
	end
	if not votes or trusted > 0 then tail = string.format(' %d %d', since, trusted) end
	head = string.format('1 %s %s %s ', maxTTL, run, not votes and 'q' or trusted > 0 and 't' or 'v')
	if record ~= head .. mark .. tail then redis.call('SET', KEYS[1], head .. mark .. tail) end
end

