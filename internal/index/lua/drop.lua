#!lua flags=allow-oom
-- drop: removes finished tasks from due and from their owners' sets, unless either has a newer version.
-- KEYS[1] -> due
-- KEYS[2…] -> owner sets
-- ARGV[…] -> by member: member, place of its owner set in KEYS, version mod 4096; no member twice
-- returns how many were dropped
local members = every(ARGV, 1, 3)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))

local due, dropped = {}, 0
for n, member in ipairs(members) do
  local owner = KEYS[tonumber(ARGV[3 * n - 1])]
  local reference = latest(standing[n], redis.call('ZSCORE', owner, member))
  if not reference or not newer(reference, tonumber(ARGV[3 * n])) then
    redis.call('ZREM', owner, member)
    dropped = dropped + 1
    if standing[n] then -- rare: usually ack has removed it
    due[#due + 1] = member
    end
  end
end
if #due > 0 then
redis.call('ZREM', KEYS[1], unpack(due))
end
return dropped
