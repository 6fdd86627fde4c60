-- put: adds or moves members in due and in their owners' sets, unless a newer version stands in either. It has no
-- allow-oom: a full Redis refuses new members, all of the call's or none.
-- KEYS[1] -> due
-- KEYS[2] -> claimed
-- KEYS[3…] -> owner sets
-- ARGV[1] -> PUBLISH or SPUBLISH
-- ARGV[2] -> wake channel; '' if none of the members can be due before the dispatcher looks by itself
-- ARGV[3…] -> by member: member, place of its owner set in KEYS, score; no member twice
-- returns how many were written
local members = every(3, 3)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))
local before = ARGV[2] ~= '' and head(KEYS[1], KEYS[2])

local scores, owned = {}, {} -- by number of the member; numbers of members by the place of their owner's set
for n = 1, #members do
  local place = tonumber(ARGV[3 * n + 1])
  scores[n] = tonumber(ARGV[3 * n + 2])
  owned[place] = owned[place] or {}
  table.insert(owned[place], n)
end

local adds, lowest = {}, nil
for place, numbers in pairs(owned) do
  local taken = {}
  for i, kept in ipairs(redis.call('ZMSCORE', KEYS[place], unpack(pick(members, numbers)))) do
    local n = numbers[i]
    local reference = latest(standing[n], kept)
    if not reference or reference == version(scores[n]) or newer(version(scores[n]), reference) then
      taken[#taken + 1] = n
      adds[#adds + 1] = ARGV[3 * n + 2]
      adds[#adds + 1] = members[n]
      if not lowest or scores[n] < lowest then
        lowest = scores[n]
      end
    end
  end
  owned[place] = taken
end
if #adds > 0 then
  redis.call('ZADD', KEYS[1], unpack(adds)) -- first: where Redis is full this is refused before anything is written
end

-- A set of up to 128 is a list in which each step of a ZADD goes from the lowest score on, so that moving many members of
-- one owner would cost the square of their number. Taken out, and put back from the highest on, each goes to the front. For
-- a few that is not worth a call more.
for place, numbers in pairs(owned) do
  if #numbers > 8 and #numbers <= 128 then
    table.sort(numbers, function(a, b) return scores[a] > scores[b] end)
    redis.call('ZREM', KEYS[place], unpack(pick(members, numbers)))
  end
  local own = {}
  for _, n in ipairs(numbers) do
    own[#own + 1] = ARGV[3 * n + 2]
    own[#own + 1] = members[n]
  end
  if #own > 0 then
    redis.call('ZADD', KEYS[place], unpack(own))
  end
end
if ARGV[2] ~= '' then
  wake(ARGV[1], ARGV[2], lowest, before)
end
return #adds / 2
