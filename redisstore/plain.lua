-- plain.lua: what the scripts of plain mode share. It precedes each of them.
--
-- The lock of a name is one key, by the rules of the published lock on a single Redis: a client acquires it by setting
-- the key with NX and PX to a value that is set for no other claim, and only a client that finds its own value there
-- deletes the key or changes its expiry. So the lock excludes all clients that follow these rules, and is excluded by
-- them.
--
-- A claim recognises its value by the arguments EXPECTED and MORE. If MORE is "more", EXPECTED is only the beginning of
-- the value, "holdfast ID ", and the whole value is "holdfast ID TICKET SINCE OWNER" (see plain_value.go). Otherwise
-- EXPECTED is the whole value.
--
-- Invariants
--   A key that holds another value than the claim's is read, but never changed, except by plain_break.lua.
--   A ticket is drawn only for a claim that has the key or gets it in the same script. So tickets rise with grants.

-- valueOf returns the value of a key: nil if there is no such key, and "" if it is no string. Then the name is locked
-- by another kind of lock.
local function valueOf(key)
	local value = redis.pcall('GET', key)
	if type(value) ~= 'table' then return value or nil end
	if string.find(value.err, 'WRONGTYPE', 1, true) then return '' end
	return redis.call('GET', key) -- fails with the error
end

-- owns reports whether a value is the claim's.
local function owns(value, expected, more)
	if more == 'more' then return string.sub(value, 1, #expected) == expected end
	return value == expected
end

-- describe returns the holder: its value, cut off where the rest is of no use, and how many milliseconds it has left;
-- -1: it does not expire.
local function describe(key, value) return {string.sub(value, 1, 4096), redis.call('PTTL', key)} end

-- release deletes the key and notifies waiters.
local function release(key, channel)
	redis.call('DEL', key)
	redis.pcall('PUBLISH', channel, '')
end

