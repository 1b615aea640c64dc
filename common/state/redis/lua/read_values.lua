-- Reads values. KEYS: theirs. Answers {now ms, then of each: the value, nothing, or 1 for another type}.
local time = redis.call('TIME')
local answer = {time[1] * 1000 + math.floor(time[2] / 1000)}
for place, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  answer[place + 1] = type(value) == 'table' and 1 or value
end
return answer
