#!lua name=rtas_days_1

-- The days of one source. KEYS[1] is its index: names of streams by the number of their day. It lives as long as somebody looks
-- after it, and outlives its last stream for a while: no earlier day than its newest is ever given out.

local function is_over(until_ms)
  local now = redis.call('TIME')
  return tonumber(until_ms) > 0 and now[1] * 1000 + math.floor(now[2] / 1000) >= tonumber(until_ms)
end

local function newest(index)
  local found = redis.call('ZRANGE', index, 0, 0, 'REV', 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- The stream for a new session. ARGV: number of the day by the clock, its stream, ttl_s
-- Gives {the stream, 1 if its day begins with that}.
local function choose(keys, args)
  local name, number = newest(keys[1])
  local begins = not number or number < tonumber(args[1])
  if begins then
    name = args[2]
    redis.call('ZADD', keys[1], args[1], name)
  end
  redis.call('EXPIRE', keys[1], args[3])
  return { name, begins and 1 or 0 }
end

-- Puts in what is missing, and keeps the index from expiring. ARGV: ttl_s, then number and stream of each day.
local function keep(keys, args)
  for at = 2, #args, 2 do redis.call('ZADD', keys[1], args[at], args[at + 1]) end
  return redis.call('EXPIRE', keys[1], args[1])
end

-- Takes a day out, unless it is the newest. ARGV: stream. Gives 1 if it went.
local function drop(keys, args)
  if newest(keys[1]) == args[1] then return 0 end
  return redis.call('ZREM', keys[1], args[1])
end

-- Removes a stream that got no entry since a time. KEYS[1] is the stream.
-- ARGV: that time in ms, a time after which no id is believed, end of the lease
-- Gives 1 if it is gone, 0 if it got one, -1 where the lease is over.
local function remove(keys, args)
  if is_over(args[3]) then return -1 end
  if redis.call('EXISTS', keys[1]) == 0 then return 1 end
  local info = redis.call('XINFO', 'STREAM', keys[1])
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' then
      local last_ms = tonumber(info[at + 1]:match('%d+'))
      if last_ms >= tonumber(args[1]) and last_ms < tonumber(args[2]) then return 0 end
    end
  end
  redis.call('UNLINK', keys[1])
  return 1
end

redis.register_function('rtas_day_choose_1', choose)
-- What makes room has to work where there is none.
redis.register_function { function_name = 'rtas_day_keep_1', callback = keep, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_day_drop_1', callback = drop, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_day_remove_1', callback = remove, flags = { 'allow-oom' } }
