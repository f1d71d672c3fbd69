-- plain.lua: what the scripts of plain mode share. It stands before each of them.
--
-- The lock of a name is one key, by the rules of the published lock on a single Redis: whoever wants it sets the key with
-- NX and PX to a value that nobody else ever sets, and only who finds its own value there deletes the key or moves its
-- expiry. So it excludes everybody who keeps to these rules, and is excluded by them.
--
-- A claim knows its value by want: all of it, or if more is "more" only its beginning, "holdfast ID ". Then the whole is
-- "holdfast ID TICKET SINCE OWNER" (see plain_value.go).
--
-- Invariants
--   A key that holds another value than the claim's is read and nothing else.
--   A ticket is drawn only by who then takes the key, in the same script. So tickets rise with grants.

-- holder is the value of a key: nil if there is no such key, empty if it is no string. Then a lock of another make has
-- the name, and to us it is taken.
local function holder(key)
	local value = redis.pcall('GET', key)
	if type(value) ~= 'table' then return value or nil end
	if string.find(value.err, 'WRONGTYPE', 1, true) then return '' end
	return redis.call('GET', key) -- which fails, and says why
end

-- owns says whether a value is the claim's.
local function owns(value, want, more)
	if more == 'more' then return string.sub(value, 1, #want) == want end
	return value == want
end

-- show describes the holder: its value, as far as it is of use, and how many milliseconds it has left; -1: no end.
local function show(key, value) return {string.sub(value, 1, 4096), redis.call('PTTL', key)} end

-- free takes the key away and wakes those who wait.
local function free(key, channel)
	redis.call('DEL', key)
	redis.pcall('PUBLISH', channel, '')
end

