-- plain_break.lua: releases a lock that is held with a ticket. For operators.
--
-- KEYS  1  the lock's key
-- ARGV  1  the ticket
--       2  the channel of the waiters
-- Result   1, "nobody", or "stranger" if the value does not have a ticket

local value = valueOf(KEYS[1])
if not value then return 'nobody' end
local ticket = string.match(value, '^holdfast %x+ (%d+) ')
if not ticket then return 'stranger' end
if ticket ~= ARGV[1] then return 'nobody' end
release(KEYS[1], ARGV[2])
return 1
