-- Takes a lease. KEYS: the lease, the counter of its fences. ARGV: owner, keep ms.
-- Answers {values that were not ours, fence, its end}, without the last two while another has it.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gone = now + tonumber(ARGV[2])
local foreign, fence = 0, nil
local held = redis.pcall('GET', KEYS[1])
if held then
  local number, owner
  if type(held) == 'string' then
    number, owner = string.match(held, '^l1 (%d+) (.*)$')
  end
  if not number then
    foreign = 1
  elseif owner ~= ARGV[1] then
    return {0}
  else
    fence = number
  end
end
if not fence then
  local counted = redis.pcall('INCR', KEYS[2])
  if type(counted) == 'table' then
    -- The clock is above whatever was counted one by one.
    foreign = foreign + 1
    redis.call('SET', KEYS[2], string.format('%.0f', now))
    counted = now
  end
  fence = string.format('%.0f', counted)
end
redis.call('SET', KEYS[1], 'l1 ' .. fence .. ' ' .. ARGV[1], 'PXAT', string.format('%.0f', gone - 1))
return {foreign, tonumber(fence), gone}
