-- plain_break.lua: takes a lock away from whoever holds it with a ticket. For operators.
--
-- KEYS  1  the lock's key
-- ARGV  1  the ticket
--       2  the channel on which those listen who wait
-- Result   1, "nobody", or "stranger" if the value does not say which ticket it has

local value = holder(KEYS[1])
if not value then return 'nobody' end
local ticket = string.match(value, '^holdfast %x+ (%d+) ')
if not ticket then return 'stranger' end
if ticket ~= ARGV[1] then return 'nobody' end
free(KEYS[1], ARGV[2])
return 1
