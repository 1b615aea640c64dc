-- Extends a lease, or gives it up. KEYS: the lease. ARGV: its value as it must be, keep ms (0 gives it up).
-- Answers its end, or 0 when it is not held any more.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local keep_ms = tonumber(ARGV[2])
if keep_ms == 0 then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[1], 'PXAT', string.format('%.0f', now + keep_ms - 1))
return now + keep_ms
