-- put: adds or moves members in due and in their owners' sets, unless a newer version stands in either. It has no
-- allow-oom: a full Redis refuses new members, all of the call's or none.
-- KEYS[1] -> due
-- KEYS[2] -> claimed
-- KEYS[3…] -> owner sets
-- ARGV[1] -> PUBLISH or SPUBLISH
-- ARGV[2] -> wake channel; '' if none of the members can be due before the dispatcher looks by itself
-- ARGV[3…] -> by member: member, place of its owner set in KEYS, score; no member twice
-- returns how many were written
local members = every(3, 3)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))
local before = ARGV[2] ~= '' and head(KEYS[1], KEYS[2])

local adds, lowest = {}, nil
for n, member in ipairs(members) do
  local owner, text = KEYS[tonumber(ARGV[3 * n + 1])], ARGV[3 * n + 2]
  local score = tonumber(text)
  local reference = latest(standing[n], redis.call('ZSCORE', owner, member))
  if not reference or reference == version(score) or newer(version(score), reference) then
    redis.call('ZADD', owner, text, member)
    adds[#adds + 1] = text
    adds[#adds + 1] = member
    if not lowest or score < lowest then
      lowest = score
    end
  end
end
if #adds > 0 then
  redis.call('ZADD', KEYS[1], unpack(adds))
end
if ARGV[2] ~= '' then
  wake(ARGV[1], ARGV[2], lowest, before)
end
return #adds / 2
