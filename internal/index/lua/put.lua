-- put: adds or moves members in due and in their owners' sets, unless a newer version stands in either. It has no
-- allow-oom: a full Redis refuses new members, all of the call's or none.
-- KEYS[1] -> due
-- KEYS[2] -> claimed
-- KEYS[3…] -> owner sets
-- ARGV[1] -> PUBLISH or SPUBLISH
-- ARGV[2] -> wake channel; '' if none of the members can be due before the dispatcher looks by itself
-- ARGV[3…] -> by member: member, place of its owner set in KEYS, score; no member twice; the latest first is the fastest
-- returns how many were written
local members = every(ARGV, 3, 3)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))
local before = ARGV[2] ~= '' and head(KEYS[1], KEYS[2])

local owned = {} -- numbers of members by the place of their owner's set
for n = 1, #members do
  local place = ARGV[3 * n + 1]
  local numbers = owned[place]
  if numbers then
    numbers[#numbers + 1] = n
  else
    owned[place] = { n }
  end
end

local adds, lowest, sets = {}, nil, {} -- sets: what to write, by the place of an owner's set
for place, numbers in pairs(owned) do
  local kept = redis.call('ZMSCORE', KEYS[tonumber(place)], unpack(pick(members, numbers)))
  local own = {}
  for i, n in ipairs(numbers) do
    local text = ARGV[3 * n + 2]
    local score = tonumber(text)
    local reference = latest(standing[n], kept[i])
    local ours = reference and version(score)
    if not reference or reference == ours or newer(ours, reference) then
      adds[#adds + 1], adds[#adds + 2] = text, members[n]
      own[#own + 1], own[#own + 2] = text, members[n]
      if not lowest or score < lowest then
        lowest = score
      end
    end
  end
  sets[place] = own
end
if #adds > 0 then
  redis.call('ZADD', KEYS[1], unpack(adds)) -- first: where Redis is full this is refused before anything is written
end

-- A set of up to 128 is a list in which each step of a ZADD goes from the lowest score on, so that moving many members of
-- one owner would cost the square of their number. Taken out, and put back from the highest on, as they come, each goes to
-- the front. For a few that is not worth a call more.
for place, own in pairs(sets) do
  local key = KEYS[tonumber(place)]
  if #own > 2 * 8 and #own <= 2 * 128 then
    redis.call('ZREM', key, unpack(every(own, 2, 2)))
  end
  if #own > 0 then
    redis.call('ZADD', key, unpack(own))
  end
end
if ARGV[2] ~= '' then
  wake(ARGV[1], ARGV[2], lowest, before)
end
return #adds / 2
