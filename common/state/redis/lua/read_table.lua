-- The active table. KEYS: the pointer. ARGV: the revision that is known, what precedes a revision in a key.
-- Answers {values that were not ours, active revision, document}; no document when it is the known one.
local active = redis.pcall('HGET', KEYS[1], 'revision')
-- No pointer, or none with a revision, is an empty store only where nothing was ever written.
if not active then return {redis.call('EXISTS', KEYS[1], ARGV[2] .. '1') > 0 and 1 or 0, 0} end
if type(active) ~= 'string' or not string.match(active, '^[1-9]%d*$') then return {1, 0} end
if active == ARGV[1] then return {0, tonumber(active)} end
local document = redis.pcall('HGET', ARGV[2] .. active, 'document')
if type(document) ~= 'string' then return {1, tonumber(active)} end
return {0, tonumber(active), document}
