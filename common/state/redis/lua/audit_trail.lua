-- Comes before the scripts that record. A trail is a list of entries, numbered by a counter beside it.

-- What is wrong with the keys of a trail, as a reply; nil for nothing. To be asked before the first write.
local function trail_damage(trail, count)
  local found = redis.call('TYPE', trail).ok
  if found ~= 'none' and found ~= 'list' then return redis.error_reply('FOREIGN ' .. trail .. ' is a ' .. found) end
  local number = redis.pcall('GET', count)
  if number and (type(number) ~= 'string' or not string.match(number, '^%d+$') or #number > 15) then
    return redis.error_reply('FOREIGN ' .. count .. ' is no number')
  end
end

-- Adds an entry; its number and its time, which never falls. A server without memory refuses the first write of a
-- script: call this before anything is deleted.
local function record(trail, count, now, entry)
  local last = redis.call('LINDEX', trail, -1)
  local last_ms = last and string.match(last, '^a1 %d+ (%d+) ')
  if last_ms and #last_ms <= 15 then now = math.max(now, tonumber(last_ms)) end
  local id = redis.call('INCR', count)
  redis.call('RPUSH', trail, string.format('a1 %.0f %.0f %s', id, now, entry))
  return id, now
end

