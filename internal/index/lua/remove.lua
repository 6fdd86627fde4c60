#!lua flags=allow-oom
-- remove: removes one member from each set in which it has exactly this score.
-- KEYS[…] -> sets
-- ARGV[1] -> member
-- ARGV[2] -> score
-- returns from how many sets it was removed
local removed = 0
for _, key in ipairs(KEYS) do
  local score = redis.call('ZSCORE', key, ARGV[1])
  if score and number(score) == tonumber(ARGV[2]) then
    removed = removed + redis.call('ZREM', key, ARGV[1])
  end
end
return removed
