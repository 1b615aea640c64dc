-- Counts a failed authentication of an address, or says what is counted. KEYS: the address. ARGV: how many may be in the
-- window, the window in ms, 1 to count. Answers {values that were not ours, ms until the next may be judged}.
-- A value is "f1" and the times of those in the window.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window_ms = tonumber(ARGV[2])
local value = redis.pcall('GET', KEYS[1])
local times, foreign = {}, 0
if value then
  if type(value) == 'string' and #value < 1000 and string.match(value, '^f1[ %d]+$') then
    for each in string.gmatch(string.sub(value, 4), '%d+') do
      if #each <= 15 and math.abs(now - tonumber(each)) < window_ms then times[#times + 1] = tonumber(each) end
    end
  else
    foreign = 1
  end
end
if #times >= tonumber(ARGV[1]) then return {foreign, math.min(unpack(times)) + window_ms - now} end
if ARGV[3] == '1' then
  times[#times + 1] = now
  for place, each in ipairs(times) do times[place] = string.format('%.0f', each) end
  redis.call('SET', KEYS[1], 'f1 ' .. table.concat(times, ' '), 'PX', window_ms)
end
return {foreign, 0}
