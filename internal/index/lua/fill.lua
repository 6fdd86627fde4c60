#!lua flags=allow-oom
-- fill: adds members that are in neither set, for a rebuild; it does not change members that are in either set.
-- KEYS[1] -> due
-- KEYS[2] -> claimed
-- KEYS[3…] -> owner sets
-- ARGV[1] -> PUBLISH or SPUBLISH
-- ARGV[2] -> wake channel
-- ARGV[3…] -> by member: member, place of its owner set in KEYS, score; no member twice
-- returns the numbers, from 1, of the members that are in either set with another score
local members = every(ARGV, 3, 3)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))
local before = head(KEYS[1], KEYS[2])

local function right(n, score)
  local owner = redis.call('ZSCORE', KEYS[tonumber(ARGV[3 * n + 1])], members[n])
  return owner and number(owner) == score and number(standing[n]) == score
end

local adds, lowest, otherwise = {}, nil, {}
for n, member in ipairs(members) do
  local text = ARGV[3 * n + 2]
  local score = tonumber(text)
  if standing[n] then
    if not right(n, score) then
      otherwise[#otherwise + 1] = n
    end
  elseif redis.call('ZADD', KEYS[tonumber(ARGV[3 * n + 1])], 'NX', text, member) == 0 then
    otherwise[#otherwise + 1] = n
  else
    adds[#adds + 1] = text
    adds[#adds + 1] = member
    if not lowest or score < lowest then
      lowest = score
    end
  end
end
if #adds > 0 then
  redis.call('ZADD', KEYS[1], unpack(adds))
end
wake(ARGV[1], ARGV[2], lowest, before)
return otherwise
