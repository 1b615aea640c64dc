-- Stores a decision. KEYS: its key. ARGV: 1 or 0, reason code, keep ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gone = now + tonumber(ARGV[3])
local value = string.format('d1 %.0f %s %s', now, ARGV[1], ARGV[2])
redis.call('SET', KEYS[1], value, 'PXAT', string.format('%.0f', gone - 1))
return now
