#!lua name=rtas_catalogue_2

-- What a session is to Redis while the catalogue is behind, and after Redis forgot it. Both keys live in one slot: KEYS[1]
-- is the hash that others read, KEYS[2] our state of it.

local CLOSED = { closed = true, truncated = true, failed = true, abandoned = true }

-- A closed session that Redis forgot, as the catalogue has it. Closed is final: nobody is told, and nothing waits for it.
-- ARGV: streamSessionId, streamName, streamPosition, json, now_ms, tStart, tEnd (a dash: none), ttl_s, then fields of our
-- state and their values.
-- Gives 1, or 0 where there is a session of that identity.
local function resurrect(keys, args)
  local hash, state = keys[1], keys[2]
  if redis.call('HGET', hash, 'streamSessionId') then return 0 end
  redis.call('HSET', hash, 'streamSessionId', args[1], 'streamName', args[2], 'streamPosition', args[3], 'json', args[4],
    'lastUpdated', args[5])
  redis.call('UNLINK', state)
  redis.call('HSET', state, 'streamSessionId', args[1], 'streamName', args[2], unpack(args, 9))
  if args[6] ~= '-' then redis.call('HSET', hash, 'tStart', args[6], 'tEnd', args[7]) end
  for _, key in ipairs({ hash, state }) do redis.call('EXPIRE', key, args[8]) end
  return 1
end

-- Keeps a closed session from expiring while nothing but Redis has it. ARGV: ttl_s. Gives 1, or 0 where it is safe.
local function hold(keys, args)
  local known = redis.pcall('HMGET', keys[2], 'version', 'state', 'safe')
  if not CLOSED[known[2]] or known[3] == known[1] then return 0 end
  for _, key in ipairs(keys) do redis.call('EXPIRE', key, args[1]) end
  return 1
end

redis.register_function('rtas_resurrect_2', resurrect)
-- What keeps sessions has to work where there is no room.
redis.register_function { function_name = 'rtas_hold_2', callback = hold, flags = { 'allow-oom' } }
