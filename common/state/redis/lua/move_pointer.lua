-- Writes a revision with its audit entry and points at it. KEYS: the pointer, the history, the new revision, the audit
-- trail, the counter of its entries. ARGV: expected revision, document, operator, action, entry, channel of hints.
-- Answers {whether it moved, active revision}. A pointer that is not ours stops it: nothing is written over.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local active = redis.call('HGET', KEYS[1], 'revision')
if active and not string.match(active, '^[1-9]%d*$') or not active and redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FOREIGN the pointer is not a revision')
end
active = active or '0'
if active ~= ARGV[1] then return {0, tonumber(active)} end
local revision = string.format('%.0f', tonumber(active) + 1)
-- Everything that could fail for the type of a key comes before the first write.
for place, kind in ipairs({'hash', 'list', 'none'}) do
  local found = redis.call('TYPE', KEYS[place]).ok
  if found ~= 'none' and found ~= kind then return redis.error_reply('FOREIGN ' .. KEYS[place] .. ' is a ' .. found) end
end
local damage = trail_damage(KEYS[4], KEYS[5])
if damage then return damage end
record(KEYS[4], KEYS[5], now, ARGV[5])
now = string.format('%.0f', now)
-- By a command that cannot change a revision: no user of deploy/redis/gateway.acl has one that can.
for place, field in ipairs({'document', 'operator', 'action'}) do
  redis.call('HSETNX', KEYS[3], field, ARGV[place + 1])
end
redis.call('HSETNX', KEYS[3], 'time', now)
redis.call('RPUSH', KEYS[2], revision)
redis.call('HSET', KEYS[1], 'revision', revision, 'time', now)
redis.call('PUBLISH', ARGV[6], revision)
return {1, tonumber(revision)}
