-- Adds an entry to the audit trail. KEYS: the trail, the counter of its entries. ARGV: entry.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'list' then return redis.error_reply('FOREIGN ' .. KEYS[1] .. ' is a ' .. found) end
local id = redis.call('INCR', KEYS[2])
redis.call('RPUSH', KEYS[1], string.format('a1 %.0f %.0f %s', id, now, ARGV[1]))
return {id, now}
