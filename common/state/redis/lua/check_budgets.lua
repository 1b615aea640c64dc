-- Counts requests against budgets: the sliding window of common/state/budgets.py, by this server's clock.
-- KEYS: one a budget. ARGV: four a budget: limit, window ms, bucket ms, how many requests ask.
-- Answers {now ms, values that were not ours, then four a budget: granted, used before, reset ms, wait ms}.
-- A value is the packed list "b1", newest bucket, then age and count of each bucket that is not empty, oldest first.
local time = redis.call('TIME')
local server_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = {server_ms, 0}

local function whole(number)
  return type(number) == 'number' and number >= 0 and number == math.floor(number)
end

-- The counts of a value, slid to `bucket`, and the bucket they are then relative to; nil for a value that is not ours.
local function counted(raw, bucket, lasts)
  if type(raw) ~= 'string' then return nil end
  local values = {pcall(cmsgpack.unpack, raw)}
  local newest = values[3]
  -- One that lies ahead by more than a window is of no use: the server's clock was set back since.
  if not values[1] or values[2] ~= 'b1' or not whole(newest) or newest > bucket + lasts then return nil end
  local counts = {}
  local place = 0
  local passed = math.max(bucket - newest, 0)
  local before = lasts
  for at = 4, #values, 2 do
    local age, count = values[at], values[at + 1]
    if not whole(age) or not whole(count) or count == 0 or age >= before then return nil end
    before = age
    if age + passed < lasts then
      counts[place + 1], counts[place + 2] = age + passed, count
      place = place + 2
    end
  end
  return counts, math.max(bucket, newest)
end

for place, key in ipairs(KEYS) do
  local at = place * 4 - 3
  local limit, window_ms = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local bucket_ms, asks = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local lasts = math.ceil(window_ms / bucket_ms) + 1
  local now = server_ms
  local bucket = math.floor(now / bucket_ms)
  local counts = {}

  local raw = redis.pcall('GET', key)
  if raw then
    local found, newest = counted(raw, bucket, lasts)
    if found then
      counts = found
      -- The clock stepped back: time stands still for this key until it has caught up.
      if newest > bucket then
        bucket, now = newest, math.max(now, newest * bucket_ms)
      end
    else
      answer[2] = answer[2] + 1
    end
  end

  local used = 0
  for each = 2, #counts, 2 do used = used + counts[each] end
  local granted = math.max(math.min(asks, limit - used), 0)
  if granted > 0 then
    local last = #counts
    if last > 0 and counts[last - 1] == 0 then
      counts[last] = counts[last] + granted
    else
      counts[last + 1], counts[last + 2] = 0, granted
    end
    redis.call('SET', key, cmsgpack.pack('b1', bucket, unpack(counts)), 'PX', (bucket + lasts) * bucket_ms - now)
  end

  -- Until fewer than `limit` are counted: from the oldest on, buckets leave.
  local left, oldest, each = used + granted, counts[1] or 0, 1
  while left >= limit and counts[each] do
    oldest = counts[each]
    left = left - counts[each + 1]
    each = each + 2
  end
  answer[#answer + 1] = granted
  answer[#answer + 1] = used
  answer[#answer + 1] = (bucket - (counts[1] or 0) + lasts) * bucket_ms - now
  answer[#answer + 1] = (bucket - oldest + lasts) * bucket_ms - now
end
return answer
