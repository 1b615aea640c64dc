-- Adds an entry to the audit trail. KEYS: the trail, the counter of its entries. ARGV: entry.
local time = redis.call('TIME')
local damage = trail_damage(KEYS[1], KEYS[2])
if damage then return damage end
local id, now = record(KEYS[1], KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
return {id, now}
