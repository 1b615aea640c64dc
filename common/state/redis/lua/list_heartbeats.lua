-- Replicas that are alive. KEYS: the index of replicas. ARGV: what precedes a replica in a key.
-- Answers {values that were not ours, then the value of each}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local replicas = redis.pcall('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
local answer = {0}
if replicas.err then return {1} end
for _, replica in ipairs(replicas) do
  local value = redis.pcall('GET', ARGV[1] .. replica)
  if type(value) == 'string' then
    answer[#answer + 1] = value
  elseif value then
    answer[1] = answer[1] + 1
  end
end
return answer
