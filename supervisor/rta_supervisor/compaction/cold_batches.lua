#!lua name=rtas_cold_1

-- The cold part of a stream. Each function is about one key, because cold stream, index and live stream live in different slots;
-- the order of the calls keeps readers right. Nothing is done after the end of the lease.

local function is_over(until_ms)
  local now = redis.call('TIME')
  return tonumber(until_ms) > 0 and now[1] * 1000 + math.floor(now[2] / 1000) >= tonumber(until_ms)
end

-- Adds a batch. KEYS[1] is the cold stream. ARGV: id, id of the batch before it, field, batch, end of the lease
-- Gives 1, or 0 where the lease is over or the stream goes on after the batch before it.
local function freeze(keys, args)
  if is_over(args[5]) or #redis.call('XRANGE', keys[1], '(' .. args[2], '+', 'COUNT', 1) > 0 then return 0 end
  redis.call('XADD', keys[1], args[1], args[3], args[4])
  return 1
end

-- Takes a batch out. KEYS[1] is the cold stream. ARGV: id, end of the lease. Gives 1 if it was there.
local function take_out(keys, args)
  if is_over(args[2]) then return 0 end
  local gone = redis.call('XDEL', keys[1], args[1])
  if redis.call('XLEN', keys[1]) == 0 then redis.call('UNLINK', keys[1]) end
  return gone
end

-- Says what is cold. KEYS[1] is the index. ARGV: stream, what it said before or an empty text, what it says now or an empty
-- text for nothing, end of the lease. Gives 1, or 0 where it said something else or the lease is over.
local function switch(keys, args)
  if is_over(args[4]) or (redis.call('HGET', keys[1], args[1]) or '') ~= args[2] then return 0 end
  if args[3] == '' then redis.call('HDEL', keys[1], args[1]) else redis.call('HSET', keys[1], args[1], args[3]) end
  return 1
end

-- Removes what is cold from the live stream, which stays even if it is empty: ids go on where they were.
-- KEYS[1] is the live stream. ARGV: the first id that stays, end of the lease. Gives how many went, -1 where the lease is over.
local function shed(keys, args)
  if is_over(args[2]) then return -1 end
  if redis.call('EXISTS', keys[1]) == 0 then return 0 end
  return redis.call('XTRIM', keys[1], 'MINID', '=', args[1])
end

-- This makes room in the end, so it has to work where there is none: it takes one batch first, and gives more back.
redis.register_function { function_name = 'rtas_freeze_1', callback = freeze, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_take_out_1', callback = take_out, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_switch_1', callback = switch, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_shed_1', callback = shed, flags = { 'allow-oom' } }
