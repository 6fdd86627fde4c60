#!lua flags=no-writes
-- page: lists an owner's set from a place on, and writes nothing. The place is a score and an id, that need not stand there.
-- KEYS[1] -> owner set
-- ARGV[1] -> score of the last member before; '' = from the beginning
-- ARGV[2] -> its id
-- ARGV[3] -> kind; '' = any
-- ARGV[4] -> how many to return at most
-- ARGV[5] -> how many to look at at most
-- returns score and member of the last one looked at ('' at the end of the set), then member, score, member, score, …

-- behind tells whether the member at a place in the set has a larger id. Locales order texts otherwise than Redis does.
local function behind(place)
  local member = redis.call('ZRANGE', KEYS[1], place, place)[1]
  for i = 1, 16 do
    local a, b = member:byte(i) or 0, ARGV[2]:byte(i)
    if a ~= b then
      return a > b
    end
  end
  return false
end

local first = 0
if ARGV[1] ~= '' then
  first = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[1])
  local last = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1])
  while first < last do -- of those at the same score, in the order of their ids
    local middle = floor((first + last) / 2)
    if behind(string.format('%.0f', middle)) then
      last = middle
    else
      first = middle + 1
    end
  end
end

local look, limit = tonumber(ARGV[5]), tonumber(ARGV[4])
local members = redis.call('ZRANGE', KEYS[1], string.format('%.0f', first), string.format('%.0f', first + look - 1), 'WITHSCORES')
local answer, wanted = { '', '' }, ARGV[3] .. '\31'
for i = 1, #members, 2 do
  if ARGV[3] == '' or members[i]:sub(17, 16 + #wanted) == wanted then
    answer[#answer + 1] = members[i]
    answer[#answer + 1] = members[i + 1]
  end
  if #answer >= 2 * limit + 2 or i == 2 * look - 1 then
    answer[1], answer[2] = members[i + 1], members[i]
    break
  end
end
return answer
