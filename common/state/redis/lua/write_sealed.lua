-- Writes a sealed value. KEYS: its key. ARGV: the value, the fence of the lease under which it is written.
-- Answers {values that were not ours, whether it was written}: not over one with a higher fence.
local value = redis.pcall('GET', KEYS[1])
local foreign = 0
if value then
  local fence = type(value) == 'string' and string.match(value, '^e1 (%d+) ')
  if not fence or #fence > 15 then
    foreign = 1
  elseif tonumber(fence) > tonumber(ARGV[2]) then
    return {0, 0}
  end
end
redis.call('SET', KEYS[1], 'e1 ' .. ARGV[2] .. ' ' .. ARGV[1])
return {foreign, 1}
