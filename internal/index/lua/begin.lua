#!lua flags=allow-oom
-- begin: begins a rebuild; from now on only the end of this rebuild can set the generation marker.
-- KEYS[1] -> gen
-- ARGV[1] -> the marker of a rebuild under way, with its token
-- returns 1
redis.call('SET', KEYS[1], ARGV[1])
return 1
