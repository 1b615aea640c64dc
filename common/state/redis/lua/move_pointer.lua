-- Writes a revision with its audit entry and points at it. KEYS: the pointer, the history, the new revision, the audit
-- trail, the counter of its entries. ARGV: expected revision, document, operator, action, entry, channel of hints.
-- Answers {whether it moved, active revision}. A pointer that is not ours stops it: nothing is written over.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local active = redis.call('HGET', KEYS[1], 'revision') or '0'
if not string.match(active, '^%d+$') then return redis.error_reply('FOREIGN the pointer is not a revision') end
if active ~= ARGV[1] then return {0, tonumber(active)} end
local revision = string.format('%.0f', tonumber(active) + 1)
-- Everything that could fail for the type of a key comes before the first write.
for place, kind in ipairs({'hash', 'list', 'hash', 'list', 'string'}) do
  local found = redis.call('TYPE', KEYS[place]).ok
  if found ~= 'none' and found ~= kind then return redis.error_reply('FOREIGN ' .. KEYS[place] .. ' is a ' .. found) end
end
local id = redis.call('INCR', KEYS[5])
redis.call('RPUSH', KEYS[4], string.format('a1 %.0f %s %s', id, now, ARGV[5]))
redis.call('HSET', KEYS[3], 'document', ARGV[2], 'time', now, 'operator', ARGV[3], 'action', ARGV[4])
redis.call('RPUSH', KEYS[2], revision)
redis.call('HSET', KEYS[1], 'revision', revision, 'time', now)
redis.call('PUBLISH', ARGV[6], revision)
return {1, tonumber(revision)}
