#!lua flags=allow-oom
-- finish: sets the generation marker if the rebuild's own token still stands: after a second flush, or under another
-- rebuild, it does not.
-- KEYS[1] -> gen
-- ARGV[1] -> what said that this rebuild is under way
-- ARGV[2] -> the marker that says that it is complete
-- returns 1 if the marker stands, 0 if not
local stored = redis.call('GET', KEYS[1])
if stored == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return (stored == ARGV[1] or stored == ARGV[2]) and 1 or 0
