#!lua flags=allow-oom
-- finish: sets the generation marker if it still has the rebuild's own token: after a second loss of memory, or during
-- another rebuild, it does not.
-- KEYS[1] -> gen
-- ARGV[1] -> the marker of a rebuild under way, with its token
-- ARGV[2] -> the marker of the completed rebuild
-- returns 1 if the marker is set, 0 if not
local stored = redis.call('GET', KEYS[1])
if stored == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return (stored == ARGV[1] or stored == ARGV[2]) and 1 or 0
