-- Entries of the audit trail, newest first. KEYS: the trail. ARGV: below which number (0: any), how many, action and
-- operator ('' admits all), from which time (in) to which ('' is open; out), how many entries to look at.
-- Answers {values that were not ours, below which number to go on (0: nothing follows), entries}.
-- Entries are numbered from 1 without a gap, so the number of one is its place; time never falls with it.
local trail, before, limit, action, operator = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local from, to, most = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local newest = redis.pcall('LLEN', trail)
if type(newest) == 'table' then return {1, 0} end
if before > 0 then newest = math.min(newest, before - 1) end
local answer = {0, 0}

-- Time and parts of an entry, as common/state/redis/records.py reads them; nil for one that is not ours.
local function read(entry)
  local time, body = string.match(entry, '^a1 %d+ (%d+) (.+)$')
  if not time or #time > 15 then return nil end
  local could, told = pcall(cjson.decode, body)
  if not could or type(told) ~= 'table' or #told ~= 6 then return nil end
  for _, part in ipairs(told) do
    if type(part) ~= 'string' then return nil end
  end
  return tonumber(time), told
end

if to then
  -- The first that is too late lies above `low` and not above `high`.
  local low, high = 0, newest + 1
  while low + 1 < high do
    local middle = math.floor((low + high) / 2)
    local at, time = middle, nil
    while not time and at > low and most > 0 do
      time, at, most = read(redis.call('LINDEX', trail, at - 1)), at - 1, most - 1
    end
    if time and time >= to then high = at + 1 else low = middle end
  end
  newest = low
end

local place = newest
while place > 0 do
  local first = math.max(place - 99, 1)
  local entries = redis.call('LRANGE', trail, first - 1, place - 1)
  for at = #entries, 1, -1 do
    if most <= 0 then
      answer[2] = place + 1
      return answer
    end
    most = most - 1
    local time, told = read(entries[at])
    if not time then
      answer[1] = answer[1] + 1
    elseif from and time < from then
      return answer
    elseif (action == '' or told[1] == action) and (operator == '' or told[3] == operator) then
      if #answer - 2 == limit then
        answer[2] = place + 1
        return answer
      end
      answer[#answer + 1] = entries[at]
    end
    place = place - 1
  end
end
return answer
