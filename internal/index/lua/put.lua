-- put: adds or moves members in due and in their owners' sets, unless either has a newer version. It has no allow-oom: a
-- full Redis refuses all members of a call or none.
-- KEYS[1] -> due
-- KEYS[2] -> claimed
-- KEYS[3…] -> owner sets
-- ARGV[1] -> PUBLISH or SPUBLISH
-- ARGV[2] -> wake channel; '' if none of the members can be due before the dispatcher looks by itself
-- ARGV[3…] -> by member: member, place of its owner set in KEYS, score; no member twice; the latest comes first
-- returns how many were written
local members = every(ARGV, 3, 3)
local standing = redis.call('ZMSCORE', KEYS[1], unpack(members))
local before = ARGV[2] ~= '' and head(KEYS[1], KEYS[2])

local owned, known = {}, {} -- by the place of an owner's set: score, member, score, …; and the members' scores in due
for n, member in ipairs(members) do
  local place = ARGV[3 * n + 1]
  local own = owned[place]
  if not own then
    own = {}
    owned[place] = own
  end
  own[#own + 1], own[#own + 2] = ARGV[3 * n + 2], member
  if standing[n] then
    known[place] = known[place] or {}
    known[place][#own / 2] = standing[n]
  end
end

-- allowed leaves out members of which either set has a newer version.
local function allowed(key, own, due)
  local some, top = {}, 0
  for i, kept in ipairs(redis.call('ZMSCORE', key, unpack(every(own, 2, 2)))) do
    local text = own[2 * i - 1]
    local reference = latest(due[i], kept)
    local ours = reference and version(tonumber(text))
    if not reference or reference == ours or newer(ours, reference) then
      some[top + 1], some[top + 2] = text, own[2 * i]
      top = top + 2
    end
  end
  return some
end

-- A set of up to 128 members is a list, in which ZADD searches from the lowest score on: moving many members of one owner
-- would take time by the square of their number. If all are removed and then added from the highest score down, the order
-- in which they come, each goes to the front. For a few members that is not worth another call.
local function write(key, own)
  if #own > 2 * 8 and #own <= 2 * 128 then
    redis.call('ZREM', key, unpack(every(own, 2, 2)))
  end
  if #own > 0 then
    redis.call('ZADD', key, unpack(own))
  end
end

local adds, lowest = {}, nil
for place, own in pairs(owned) do
  local key = KEYS[tonumber(place)]
  -- New members are in neither set, and NX adds them without a comparison. If some were in the set, allowed decides.
  if known[place] or redis.call('ZADD', key, 'NX', unpack(own)) < #own / 2 then
    own = allowed(key, own, known[place] or {})
    write(key, own)
  end
  local top = #adds
  for i, v in ipairs(own) do
    adds[top + i] = v
  end
  local last = tonumber(own[#own - 1])
  if last and (not lowest or last < lowest) then
    lowest = last
  end
end
if #adds > 0 then
  redis.call('ZADD', KEYS[1], unpack(adds))
end
if ARGV[2] ~= '' then
  wake(ARGV[1], ARGV[2], lowest, before)
end
return #adds / 2
