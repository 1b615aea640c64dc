-- Deletes the one live session whose id hash begins with a handle, with its audit entry. KEYS: the index of all, a mark
-- that a deletion is still to be recorded, and the trail and the counter of its entries, or neither where those are out
-- of reach. ARGV: handle, what precedes an id hash in a key, what precedes a subject's digest in the key of its index,
-- entry, how long a mark is kept, how long whoever deletes has for recording it, both in ms.
-- Answers {values that were not ours, how many there are}. One that was deleted and not recorded in time is there for
-- whoever asks next; until then it is -1.
local handle, prefix = ARGV[1], ARGV[2]
local members = redis.pcall('ZRANGE', KEYS[1], '[' .. handle, '(' .. handle .. '\255', 'BYLEX')
if members.err then return {1, 0} end
local live, digests, foreign = {}, {}, 0
for _, member in ipairs(members) do
  local value = redis.pcall('GET', prefix .. member)
  local _, _, _, _, digest = session_record(value)
  if digest then
    live[#live + 1], digests[#digests + 1] = member, digest
  elseif value then
    foreign = foreign + 1
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local mark = not KEYS[3] and #live == 0 and redis.pcall('GET', KEYS[2])
if mark and (type(mark) ~= 'string' or not string.match(mark, '^%d+$') or #mark > 15) then
  mark, foreign = false, foreign + 1
end
if #live ~= 1 and not mark then return {foreign, #live} end
if KEYS[3] then
  local damage = trail_damage(KEYS[3], KEYS[4])
  if damage then return damage end
  record(KEYS[3], KEYS[4], now, ARGV[4])
else
  local until_ms = tonumber(mark or 0)
  if now < until_ms and until_ms <= now + ARGV[6] then return {foreign, -1} end
  redis.call('SET', KEYS[2], string.format('%.0f', now + ARGV[6]), 'PX', ARGV[5])
  if mark then return {foreign, 1} end
end
redis.call('DEL', prefix .. live[1])
redis.call('ZREM', KEYS[1], live[1])
redis.pcall('ZREM', ARGV[3] .. digests[1], live[1])
return {foreign, 1}
