-- Stores a decision, unless one is there whose question was asked later; of two of one moment a denial stands.
-- KEYS: its key. ARGV: 1 or 0, reason code, when it was asked by this server's clock in ms, for how many ms from then on
-- it is kept. Answers {now ms, values that were not ours}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local asked, foreign = math.min(tonumber(ARGV[3]), now), 0
local value = redis.pcall('GET', KEYS[1])
if value then
  local stored, allow
  if type(value) == 'string' then stored, allow = string.match(value, '^d1 (%d+) ([01]) ') end
  if not stored or #stored > 15 then
    foreign = 1
  else
    -- One from the future: the clock was set back since, and its age cannot be told.
    local later = tonumber(stored) > asked or tonumber(stored) == asked and allow == '0'
    if later and tonumber(stored) <= now then return {now, 0} end
  end
end
local gone = asked + tonumber(ARGV[4])
if gone <= now then
  redis.call('DEL', KEYS[1])
else
  local record = string.format('d1 %.0f %s %s', asked, ARGV[1], ARGV[2])
  redis.call('SET', KEYS[1], record, 'PXAT', string.format('%.0f', gone - 1))
end
return {now, foreign}
