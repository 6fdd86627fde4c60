-- standings: returns the scores of members in due and in their owner sets, at one moment.
-- KEYS[1] -> due
-- KEYS[2…] -> owner sets
-- ARGV[…] -> by member: member, place of its owner set in KEYS
-- returns by member: its score in due, its score in the owner set ('' = absent)
local members = every(ARGV, 1, 2)
local due, answer = redis.call('ZMSCORE', KEYS[1], unpack(members)), {}
for n, member in ipairs(members) do
  answer[#answer + 1] = due[n] or ''
  answer[#answer + 1] = redis.call('ZSCORE', KEYS[tonumber(ARGV[2 * n])], member) or ''
end
return answer
