-- Revisions without their documents, newest first. KEYS: the history. ARGV: below which revision (0: any), how many,
-- what precedes a revision in a key. The history holds the numbers from 1 without a gap.
-- Answers {values that were not ours, then number, time, operator and action of each}.
local answer = {0}
local last = redis.call('LLEN', KEYS[1])
local before = tonumber(ARGV[1])
if before > 0 then last = math.min(last, before - 1) end
for revision = last, math.max(last - tonumber(ARGV[2]), 0) + 1, -1 do
  local fields = redis.pcall('HMGET', ARGV[3] .. string.format('%.0f', revision), 'time', 'operator', 'action')
  if fields.err or not (fields[1] and fields[2] and fields[3]) then
    answer[1] = answer[1] + 1
  else
    answer[#answer + 1] = revision
    for place = 1, 3 do answer[#answer + 1] = fields[place] end
  end
end
return answer
