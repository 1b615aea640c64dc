-- Stores a session. KEYS: the session, its subject's index, the index of all. ARGV: id hash, payload, idle ms, maximum
-- age ms, most sessions of the subject (0: any number), what precedes an id hash in a key.
-- Answers {now ms, values that were not ours, the record}, or {now ms, values that were not ours} when the id exists.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local session, index, all = KEYS[1], KEYS[2], KEYS[3]
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
-- Hashes are anywhere with equal chance, so those that follow are as good as any other few: more ended ones leave than
-- one comes, and they stay a third of all at most.
local others = redis.pcall('ZRANGE', all, '(' .. id_hash, '+', 'BYLEX', 'LIMIT', 0, 3)
if others.err then
  foreign = foreign + 1
  redis.call('DEL', all)
  others = {}
end
for _, member in ipairs(others) do
  if redis.call('EXISTS', prefix .. member) == 0 then redis.call('ZREM', all, member) end
end
if most > 0 then
  for place = 1, #live - most + 1 do
    redis.call('DEL', prefix .. live[place])
    redis.call('ZREM', index, live[place])
    redis.call('ZREM', all, live[place])
  end
end

local expires = now + age_ms
local idle = math.min(now + idle_ms, expires)
local record = string.format('s1 %.0f %.0f %.0f %.0f %s', now, now, idle, expires, payload)
-- A key is gone when the clock has passed its time, a session is over when the clock has reached it.
redis.call('SET', session, record, 'PXAT', string.format('%.0f', idle - 1))
-- In the order of creation, within one millisecond too.
redis.call('ZADD', index, string.format('%.0f', math.max(now, (tonumber(highest[2]) or 0) + 1)), id_hash)
redis.call('ZADD', all, 0, id_hash)
for _, each in ipairs({index, all}) do
  local left = redis.call('PTTL', each)
  if left < 0 or now + left < expires then redis.call('PEXPIREAT', each, string.format('%.0f', expires)) end
end
return {now, foreign, record}
