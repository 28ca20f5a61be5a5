#!lua name=rtas_stream_1

-- First and last entry of a session in its stream. KEYS[1] is the stream, KEYS[2] the gate of the session, KEYS[3] the
-- marks of its units; all live in one slot. The gate goes from open to sealed to finished, and writers watch it.

-- The first entry: opens the gate. Repeating it changes nothing.
-- ARGV: streamSessionId, data, ttl_s
-- Gives the id of the entry, or an empty text where the gate stood there already.
local function announce(keys, args)
  if redis.call('EXISTS', keys[2]) == 1 then return '' end
  local id = redis.call('XADD', keys[1], '*', 'id', args[1], 'data', args[2])
  redis.call('SET', keys[2], 'open', 'EX', args[3])
  return id
end

-- No burst is taken from here on. Gives all marks, which are final now.
-- ARGV: ttl_s
local function seal(keys, args)
  if redis.call('GET', keys[2]) ~= 'finished' then redis.call('SET', keys[2], 'sealed', 'EX', args[1]) end
  return redis.call('HGETALL', keys[3])
end

-- The last entry. Repeating it changes nothing.
-- ARGV: streamSessionId, data, ttl_s
local function finish(keys, args)
  if redis.call('GET', keys[2]) == 'finished' then return '' end
  local id = redis.call('XADD', keys[1], '*', 'id', args[1], 'data', args[2])
  redis.call('SET', keys[2], 'finished', 'EX', args[3])
  redis.call('EXPIRE', keys[3], args[3])
  return id
end

-- Keeps the gate of an open session from expiring. Touching it makes writers repeat a transaction, so it is done
-- once in half a lifetime.
-- ARGV: ttl_s
local function keep(keys, args)
  local left_s = redis.call('TTL', keys[2])
  if left_s >= 0 and left_s < tonumber(args[1]) / 2 then return redis.call('EXPIRE', keys[2], args[1]) end
  return 0
end

redis.register_function('rtas_announce_1', announce)
redis.register_function('rtas_seal_1', seal)
redis.register_function('rtas_finish_1', finish)
redis.register_function('rtas_keep_1', keep)
