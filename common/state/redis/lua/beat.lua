-- Says that a replica is alive. KEYS: its heartbeat, the index of replicas. ARGV: replica, payload, keep ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gone = now + tonumber(ARGV[3])
local swept = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
if type(swept) == 'table' then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[1], string.format('h1 %.0f %s', now, ARGV[2]), 'PXAT', string.format('%.0f', gone - 1))
redis.call('ZADD', KEYS[2], string.format('%.0f', gone), ARGV[1])
local left = redis.call('PTTL', KEYS[2])
if left < 0 or now + left < gone then redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', gone)) end
return now
