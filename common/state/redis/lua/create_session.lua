-- Stores a session. KEYS: the session, its subject's index. ARGV: id hash, payload, idle ms, maximum age ms, most
-- sessions of the subject (0: any number), what precedes an id hash in a key.
-- Answers {now ms, values that were not ours, the record}, or {now ms, values that were not ours} when the id exists.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local session, index = KEYS[1], KEYS[2]
local id_hash, payload, idle_ms, age_ms, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local prefix = ARGV[6]
local foreign = 0

local known = redis.pcall('GET', session)
if known then
  if session_record(known) then return {now, 0} end
  foreign = foreign + 1
end
local highest = redis.pcall('ZREVRANGE', index, 0, 0, 'WITHSCORES')
if highest.err then
  foreign = foreign + 1
  redis.call('DEL', index)
  highest = {}
end

-- Without a bound the oldest few are looked at, so that ended sessions leave the index faster than new ones come.
local members = redis.call('ZRANGE', index, 0, most > 0 and -1 or 2)
local live = {}
for _, member in ipairs(members) do
  if member ~= id_hash and redis.call('EXISTS', prefix .. member) == 1 then
    live[#live + 1] = member
  else
    redis.call('ZREM', index, member)
  end
end
if most > 0 then
  for place = 1, #live - most + 1 do
    redis.call('DEL', prefix .. live[place])
    redis.call('ZREM', index, live[place])
  end
end

local expires = now + age_ms
local idle = math.min(now + idle_ms, expires)
local record = string.format('s1 %.0f %.0f %.0f %.0f %s', now, now, idle, expires, payload)
-- A key is gone when the clock has passed its time, a session is over when the clock has reached it.
redis.call('SET', session, record, 'PXAT', string.format('%.0f', idle - 1))
-- In the order of creation, within one millisecond too.
redis.call('ZADD', index, string.format('%.0f', math.max(now, (tonumber(highest[2]) or 0) + 1)), id_hash)
local left = redis.call('PTTL', index)
if left < 0 or now + left < expires then redis.call('PEXPIREAT', index, string.format('%.0f', expires)) end
return {now, foreign, record}
