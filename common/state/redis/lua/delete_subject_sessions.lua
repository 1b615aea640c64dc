-- Deletes every session of a subject. KEYS: the subject's index. ARGV: what precedes an id hash in a key.
-- Answers {values that were not ours, how many there were}.
local members = redis.pcall('ZRANGE', KEYS[1], 0, -1)
local deleted, foreign = 0, 0
if members.err then
  members, foreign = {}, 1
end
for _, member in ipairs(members) do deleted = deleted + redis.call('DEL', ARGV[1] .. member) end
redis.call('DEL', KEYS[1])
return {foreign, deleted}
