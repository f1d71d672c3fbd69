-- plain_look.lua: returns the holder of a lock.
--
-- KEYS  1  the lock's key
-- Result   a list that describes the holder; an empty one if there is none

local value = valueOf(KEYS[1])
if not value then return {} end
return describe(KEYS[1], value)
