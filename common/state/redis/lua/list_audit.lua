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

local function time_of(entry)
  return tonumber(string.match(entry or '', '^a1 %d+ (%d+) '))
end

if to then
  -- The first that is too late lies above `low` and not above `high`.
  local low, high = 0, newest + 1
  while low + 1 < high do
    local middle = math.floor((low + high) / 2)
    local at, time = middle, nil
    while not time and at > low and most > 0 do
      time, at, most = time_of(redis.call('LINDEX', trail, at - 1)), at - 1, most - 1
    end
    if time and time >= to then high = at + 1 else low = middle end
  end
  newest = low
end

local function is_asked_for(body)
  if action == '' and operator == '' then return true end
  local read, told = pcall(cjson.decode, body)
  if not read or type(told) ~= 'table' then return nil end
  return (action == '' or told[1] == action) and (operator == '' or told[3] == operator)
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
    local time, body = string.match(entries[at], '^a1 %d+ (%d+) (.+)$')
    local asked = body and is_asked_for(body)
    if asked == nil then
      answer[1] = answer[1] + 1
    elseif from and tonumber(time) < from then
      return answer
    elseif asked then
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
