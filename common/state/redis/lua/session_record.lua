-- Comes before the scripts that change sessions. The parts of a session's record, as
-- common/state/redis/records.py reads them: created, touched, idle end, end, digest, body; nil for one that is not ours.
local function session_record(value)
  if type(value) ~= 'string' then return nil end
  local created, touched, idle, expires, digest, body = string.match(value, '^s1 (%d+) (%d+) (%d+) (%d+) (%x+) (.+)$')
  if not body or #digest ~= 32 or #created > 15 or #touched > 15 or #idle > 15 or #expires > 15 then return nil end
  local read, told = pcall(cjson.decode, body)
  if not read or type(told) ~= 'table' or #told ~= 3 then return nil end
  if type(told[1]) ~= 'string' or type(told[2]) ~= 'string' or type(told[3]) ~= 'table' then return nil end
  for key, role in pairs(told[3]) do
    if type(key) ~= 'number' or type(role) ~= 'string' then return nil end
  end
  return created, touched, idle, expires, digest, body
end

