#!lua flags=allow-oom
-- claim: returns the members below a bound, in time order, and removes nothing. If there are any, the last one's score
-- becomes the horizon, and puts wake the dispatcher only for members that come first beyond it.
-- KEYS[1] -> due
-- KEYS[2] -> epoch
-- KEYS[3] -> gen
-- KEYS[4] -> claimed
-- ARGV[1] -> the caller's epoch
-- ARGV[2] -> the bound: scores below it are due
-- ARGV[3] -> how many at most
-- ARGV[4] -> a later bound
-- returns the epoch that fences the caller ('' if none), the generation marker ('' if absent), the next score after the
-- returned members ('' if none), how many members are between the bounds, then member, score, member, score, …
local stored = redis.call('MGET', KEYS[2], KEYS[3])
local fenced = fence(stored[1], KEYS[2], ARGV[1])
if fenced then
  return { fenced, '', '', '0' }
end
local first = redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')
local answer = { '', stored[2] or '', first[2] or '', '0' }
if not first[2] or number(first[2]) >= tonumber(ARGV[4]) then
  return answer -- the usual case
end
answer[4] = string.format('%.0f', redis.call('ZCOUNT', KEYS[1], ARGV[2], '(' .. ARGV[4]))
if number(first[2]) >= tonumber(ARGV[2]) then
  return answer
end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[2], 'WITHSCORES', 'LIMIT', '0', ARGV[3])
redis.call('SET', KEYS[4], due[#due])
local after = string.format('%.0f', #due / 2)
answer[3] = redis.call('ZRANGE', KEYS[1], after, after, 'WITHSCORES')[2] or ''
for i, v in ipairs(due) do
  answer[i + 4] = v
end
return answer
