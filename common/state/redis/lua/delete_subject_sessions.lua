-- Deletes every session of a subject, with an audit entry where a trail is given. KEYS: the subject's index, the index of
-- all sessions, and the trail and the counter of its entries, or neither. ARGV: what precedes an id hash in a key, entry.
-- Answers {values that were not ours, how many there were}.
local members = redis.pcall('ZRANGE', KEYS[1], 0, -1)
local deleted, foreign = 0, 0
if members.err then
  members, foreign = {}, 1
end
if KEYS[3] then
  local damage = trail_damage(KEYS[3], KEYS[4])
  if damage then return damage end
  local time = redis.call('TIME')
  record(KEYS[3], KEYS[4], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[2])
end
for _, member in ipairs(members) do
  deleted = deleted + redis.call('DEL', ARGV[1] .. member)
  redis.pcall('ZREM', KEYS[2], member)
end
redis.call('DEL', KEYS[1])
return {foreign, deleted}
