-- plain_take.lua: acquires a lock if it is free.
--
-- KEYS  1     the lock's key
--       2     the mark: the highest ticket given, a number
--       3     the claim's tombstone
-- ARGV  1, 2  EXPECTED and MORE (see plain.lua)
--       3     with MORE: what follows the ticket in the value
--       4     ttl and grace together, in milliseconds
--       5     the floor: the highest ticket that this client has seen
--       6     empty for the first try of a claim; otherwise its ticket, 0 if unknown: an earlier try whose response was
--             lost may have acquired the lock
-- Result      the ticket as a number if the claim holds the lock; "g" if the lock is free and the claim has a
--             tombstone; "floor"; "mark MARK" as in join.lua; otherwise a list that describes the holder

-- drawTicket returns a ticket above the mark and above the floor, and raises the mark to it. If the mark or the floor
-- is not credible, it returns nil and the script's result. If there is no mark, data was lost: the mark then starts a
-- minute ahead of the clock.
local function drawTicket()
	local floor = tonumber(ARGV[5])
	local ticket = redis.pcall('INCR', KEYS[2])
	if type(ticket) == 'table' then
		if not string.find(ticket.err, 'overflow', 1, true)
			and not string.find(ticket.err, 'not an integer', 1, true) then
			redis.call('INCR', KEYS[2]) -- fails with the error
		end
		return nil, 'mark ' .. redis.call('GET', KEYS[2])
	end
	if ticket >= 1e15 and ticket > floor and ticket <= 4102444800000000 then return ticket end
	local time = redis.call('TIME')
	local now = time[1] * 1000000 + time[2]
	if ticket > 4102444800000000 and (ticket - now > 86400000000 or ticket > 9007199254740000) then -- below 2^53
		return nil, 'mark ' .. redis.call('GET', KEYS[2])
	end
	if ticket < 1e15 then ticket = now + 60000000 end
	if ticket <= floor then
		if floor - now > 86400000000 then return nil, 'floor' end
		ticket = floor + 1
	end
	if ticket > 9007199254740000 then return nil, 'floor' end
	redis.call('SET', KEYS[2], string.format('%d', ticket))
	return ticket
end

local value = valueOf(KEYS[1])
if value == nil then
	if redis.call('EXISTS', KEYS[3]) == 1 then return 'g' end
	local ticket, refusal = drawTicket()
	if not ticket then return refusal end
	value = ARGV[1]
	if ARGV[2] == 'more' then value = value .. string.format('%d', ticket) .. ' ' .. ARGV[3] end
	redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[4])
	return ticket
end
if ARGV[6] == '' or not owns(value, ARGV[1], ARGV[2]) then return describe(KEYS[1], value) end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local ticket = ARGV[6]
if ARGV[2] == 'more' then ticket = string.match(value, '^%d+', #ARGV[1] + 1) end
if ticket == '0' then
	local drawn, refusal = drawTicket()
	return drawn or refusal
end
return tonumber(ticket)
