-- Prepended to every script. Arguments and answers have scores as strings: a Lua number loses digits when it becomes text.

local KEYS, ARGV, redis, tonumber, floor = KEYS, ARGV, redis, tonumber, math.floor -- locals are faster than globals
local LAST = 2199023255552 -- 2^41: all scores of tasks are below

-- every returns values[first], values[first + step], …
local function every(values, first, step)
  local some = {}
  for i = first, #values, step do
    some[#some + 1] = values[i]
  end
  return some
end

-- number returns a score of a set; a score that no task can have (inf, less than 0) is bounded as scoreOf does in Go.
local function number(text)
  local score = tonumber(text)
  if not score then -- miniredis's Lua can't parse inf or 1e+300
    return text:sub(1, 1) == '-' and 0 or LAST
  end
  return score < 0 and 0 or score < LAST and score or LAST
end

-- version returns the version in a score: its fraction, in 4096ths.
local function version(score)
  return floor((score - floor(score)) * 4096 + 0.5)
end

-- newer reports whether version a is 1 to 2047 ahead of version b, modulo 4096.
local function newer(a, b)
  local ahead = (a - b + 4096) % 4096
  return ahead >= 1 and ahead <= 2047
end

-- versionAt returns the version of a score of a set; nil without a score, or if no task can have the score.
local function versionAt(text)
  local score = text and tonumber(text)
  return score and score >= 0 and score < LAST and version(score) or nil
end

-- latest returns the newer version of a member's two scores (false if a set lacks the member); nil if neither has one.
local function latest(due, owner)
  local d, o = versionAt(due), versionAt(owner)
  if not d or (o and newer(o, d)) then
    return o
  end
  return d
end

-- fence returns the stored epoch if it is above ours; otherwise it stores ours.
local function fence(stored, key, epoch)
  if stored and tonumber(stored) > tonumber(epoch) then
    return stored
  end
  if stored ~= epoch then
    redis.call('SET', key, epoch)
  end
  return nil
end

-- head returns the first score of due that no claim has returned yet; nil if there is none.
local function head(due, claimed)
  local horizon = redis.call('GET', claimed)
  local first = redis.call('ZRANGEBYSCORE', due, horizon and ('(' .. horizon) or '-inf', '+inf',
    'WITHSCORES', 'LIMIT', '0', '1')
  return first[2] and number(first[2])
end

-- wake publishes the milliseconds of the lowest score written, if it is below the head before the write.
local function wake(command, channel, lowest, before)
  if lowest and (not before or lowest < before) then
    redis.call(command, channel, string.format('%.0f', floor(lowest)))
  end
end
