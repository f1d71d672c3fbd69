-- probe.lua: does what the other scripts do and what a server that only resembles Redis may refuse. It changes nothing.
--
-- KEYS  1  the mark
-- ARGV  1  a key in the same slot as the mark that is not among KEYS, like most keys of a queue; empty: none is needed
--       2  the channel of this process; empty: none is needed
-- Result   "ok"

redis.call('TIME')
if ARGV[1] ~= '' then redis.call('GET', ARGV[1]) end
if ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[2], '') end
return 'ok'
