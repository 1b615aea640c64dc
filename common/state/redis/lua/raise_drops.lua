-- Says that decisions are dropped, with an audit entry where a trail is given. KEYS: the number of drops, and the trail
-- and the counter of its entries, or neither. ARGV: channel of hints, entry.
-- Answers {values that were not ours, the number}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local foreign = 0
if KEYS[2] then
  local damage = trail_damage(KEYS[2], KEYS[3])
  if damage then return damage end
  record(KEYS[2], KEYS[3], now, ARGV[2])
end
local number = redis.pcall('GET', KEYS[1])
if not number or type(number) == 'string' and string.match(number, '^%d+$') and #number <= 15 then
  number = redis.call('INCR', KEYS[1])
else
  -- The clock is above whatever was counted one by one.
  foreign, number = 1, now
  redis.call('SET', KEYS[1], string.format('%.0f', now))
end
redis.call('PUBLISH', ARGV[1], string.format('decisions %.0f', number))
return {foreign, number}
