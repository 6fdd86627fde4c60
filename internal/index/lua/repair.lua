#!lua flags=allow-oom
-- repair: replaces exactly the scores that were seen by the right ones, even by an older version, if both sets still have
-- the scores that were seen.
-- KEYS[1] -> due
-- KEYS[2] -> claimed
-- KEYS[3…] -> owner sets
-- ARGV[1] -> PUBLISH or SPUBLISH
-- ARGV[2] -> wake channel
-- ARGV[3…] -> by member: member, place of its owner set in KEYS, score seen in due, score seen in the owner set, score
--   right in due, score right in the owner set ('' = absent)
-- returns how many changed
local before = head(KEYS[1], KEYS[2])

local function stands(key, member, seen)
  local score = redis.call('ZSCORE', key, member)
  if not score or seen == '' then
    return not score and seen == ''
  end
  return number(score) == tonumber(seen)
end

local function replace(key, member, seen, right)
  if right == seen then
    return 0
  end
  if right == '' then
    redis.call('ZREM', key, member)
  else
    redis.call('ZADD', key, right, member)
  end
  return 1
end

local changed, lowest = 0, nil
for i = 3, #ARGV, 6 do
  local member, owner = ARGV[i], KEYS[tonumber(ARGV[i + 1])]
  if stands(KEYS[1], member, ARGV[i + 2]) and stands(owner, member, ARGV[i + 3]) then
    local due = replace(KEYS[1], member, ARGV[i + 2], ARGV[i + 4])
    if due + replace(owner, member, ARGV[i + 3], ARGV[i + 5]) > 0 then
      changed = changed + 1
    end
    local score = tonumber(ARGV[i + 4])
    if due > 0 and score and (not lowest or score < lowest) then
      lowest = score
    end
  end
end
wake(ARGV[1], ARGV[2], lowest, before)
return changed
