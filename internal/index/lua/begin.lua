#!lua flags=allow-oom
-- begin: a rebuild begins; from here on only its own end can set the generation marker.
-- KEYS[1] -> gen
-- ARGV[1] -> what says that this rebuild is under way
-- returns 1
redis.call('SET', KEYS[1], ARGV[1])
return 1
