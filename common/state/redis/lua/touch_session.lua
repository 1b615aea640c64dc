-- Extends a session. KEYS: the session. ARGV: idle ms.
-- Answers {now ms, values that were not ours, the new record}, without a record when the session is over.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.pcall('GET', KEYS[1])
if not value then return {now, 0} end
local created, expires, payload
if type(value) == 'string' then
  created, expires, payload = string.match(value, '^w1 (%d+) %d+ %d+ (%d+) (%x+ .+)$')
end
if not created then return {now, 1} end
local idle = math.min(now + tonumber(ARGV[1]), tonumber(expires))
local record = string.format('w1 %s %.0f %.0f %s %s', created, now, idle, expires, payload)
redis.call('SET', KEYS[1], record, 'PXAT', string.format('%.0f', idle - 1))
return {now, 0, record}
