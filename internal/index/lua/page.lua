#!lua flags=no-writes
-- page: lists an owner's set from a place on, and writes nothing. The place is a score and an id, that need not stand there.
-- KEYS[1] -> owner set
-- ARGV[1] -> score of the last member before; '' = from the beginning
-- ARGV[2] -> its id
-- ARGV[3] -> kind; '' = any
-- ARGV[4] -> how many to return at most
-- ARGV[5] -> how many to look at at most
-- returns score and member of the last one looked at ('' at the end of the set), then member, score, member, score, …

-- behind tells whether the member at a place in the set, if there is one, comes after the one before. Of those at the same score
-- the ids decide; locales order texts otherwise than Redis does.
local function behind(place)
  place = string.format('%.0f', place)
  local found = redis.call('ZRANGE', KEYS[1], place, place, 'WITHSCORES')
  if not found[1] then
    return true
  end
  local score, before = tonumber(found[2]) or number(found[2]), tonumber(ARGV[1]) or number(ARGV[1])
  if score ~= before then
    return score > before
  end
  for i = 1, 16 do
    local a, b = found[1]:byte(i) or 0, ARGV[2]:byte(i)
    if a ~= b then
      return a > b
    end
  end
  return false
end

-- The place is searched for with ZRANGE alone: services have no right to count.
local first = 0
if ARGV[1] ~= '' then
  local last = 1000
  while not behind(last) do
    first, last = last + 1, last * 2
  end
  while first < last do
    local middle = floor((first + last) / 2)
    if behind(middle) then
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
