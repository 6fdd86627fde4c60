#!lua flags=no-writes
-- page: lists an owner's set from a place on, and writes nothing. The place is a score and an id, which need not be in the set.
-- KEYS[1] -> owner set
-- ARGV[1] -> score of the previous page's last member; '' = from the beginning
-- ARGV[2] -> its id
-- ARGV[3] -> kind; '' = any
-- ARGV[4] -> how many to return at most
-- ARGV[5] -> how many to look at at most
-- returns score and member of the last member looked at ('' at the end of the set), then member, score, member, score, …

-- after reports whether the member at a rank of the set, if there is one, comes after the place. At the same score the ids'
-- bytes decide, since Lua's comparison of strings depends on the locale.
local function after(place)
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

-- The place is searched by ZRANGE, because services may not use counting commands.
local first = 0
if ARGV[1] ~= '' then
  local last = 1000
  while not after(last) do
    first, last = last + 1, last * 2
  end
  while first < last do
    local middle = floor((first + last) / 2)
    if after(middle) then
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
