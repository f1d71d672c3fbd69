-- plain_look.lua: says who holds a lock.
--
-- KEYS  1  the lock's key
-- Result   a list that describes the holder; an empty one if there is none

local value = holder(KEYS[1])
if not value then return {} end
return show(KEYS[1], value)
