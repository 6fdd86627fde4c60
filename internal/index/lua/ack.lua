#!lua flags=allow-oom
-- ack: removes published members from due if they still have the claimed score.
-- KEYS[1] -> due
-- KEYS[2] -> epoch
-- ARGV[1] -> the caller's epoch
-- ARGV[2…] -> by member: member, claimed score
-- returns the epoch that fences the caller; '' if none
local fenced = fence(redis.call('GET', KEYS[2]), KEYS[2], ARGV[1])
if fenced then
  return fenced
end
local members = every(ARGV, 2, 2)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))

local removed = {}
for n, member in ipairs(members) do
  if standing[n] and number(standing[n]) == tonumber(ARGV[2 * n + 1]) then
    removed[#removed + 1] = member
  end
end
if #removed > 0 then
redis.call('ZREM', KEYS[1], unpack(removed))
end
return ''
