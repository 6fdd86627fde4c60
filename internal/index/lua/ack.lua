#!lua flags=allow-oom
-- ack: takes published members out of due where they still stand at the score that was claimed.
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

local gone = {}
for n, member in ipairs(members) do
  if standing[n] and number(standing[n]) == tonumber(ARGV[2 * n + 1]) then
    gone[#gone + 1] = member
  end
end
if #gone > 0 then
  redis.call('ZREM', KEYS[1], unpack(gone))
end
return ''
