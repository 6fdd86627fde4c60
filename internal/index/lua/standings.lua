-- standings: gives what due and the owner sets hold for members, at one moment.
-- KEYS[1] -> due
-- KEYS[2…] -> owner sets
-- ARGV[…] -> by member: member, place of its owner set in KEYS
-- returns by member: its score in due, its score in the owner set ('' = absent)
local answer = {}
for i = 1, #ARGV, 2 do
  answer[#answer + 1] = redis.call('ZSCORE', KEYS[1], ARGV[i]) or ''
  answer[#answer + 1] = redis.call('ZSCORE', KEYS[tonumber(ARGV[i + 1])], ARGV[i]) or ''
end
return answer
