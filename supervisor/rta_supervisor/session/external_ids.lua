#!lua name=rtas_external_1

-- Which session an external id of a principal stands for. KEYS[1] is the identity, KEYS[2] the streamSessionId of that
-- session from when it was created on; both live in one slot. The session itself lives in another one.

-- Gives identity and streamSessionId, each empty where there is none.
local function bound(keys)
  return { redis.call('GET', keys[1]) or '', redis.call('GET', keys[2]) or '' }
end

-- Binds the id to an identity, if it is bound to none, or to one that the caller found to be void.
-- ARGV: identity, void identity (empty: none), ttl_s. Gives identity and streamSessionId that stand there then.
local function claim(keys, args)
  local there = redis.call('GET', keys[1])
  if not there or there == args[2] then
    redis.call('SET', keys[1], args[1], 'EX', args[3])
    redis.call('DEL', keys[2])
  end
  return bound(keys)
end

-- Notes that the session exists, if the id is bound to it or to none.
-- ARGV: identity, streamSessionId, ttl_s. Gives identity and streamSessionId that stand there then.
local function confirm(keys, args)
  local there = redis.call('GET', keys[1])
  if not there or there == args[1] and not redis.call('GET', keys[2]) then
    redis.call('SET', keys[1], args[1], 'EX', args[3])
    redis.call('SET', keys[2], args[2], 'EX', args[3])
  end
  return bound(keys)
end

-- Renews the lifetime of an id that is bound to a session. ARGV: identity, streamSessionId, ttl_s
local function keep(keys, args)
  if redis.call('GET', keys[1]) ~= args[1] or redis.call('GET', keys[2]) ~= args[2] then return 0 end
  for _, key in ipairs(keys) do redis.call('EXPIRE', key, args[3]) end
  return 1
end

-- Frees the id of an open that was refused, if no session was created for it. ARGV: identity
local function release(keys, args)
  if redis.call('GET', keys[1]) ~= args[1] or redis.call('GET', keys[2]) then return 0 end
  return redis.call('DEL', keys[1])
end

-- Notes in the state of a session which external id it has, if it has none. KEYS[1] is that state. One that is gone by
-- now stays gone. ARGV: streamSessionId, external id. Gives the external id that stands there then.
local function note(keys, args)
  if redis.call('HGET', keys[1], 'streamSessionId') ~= args[1] then return '' end
  redis.call('HSETNX', keys[1], 'externalId', args[2])
  return redis.call('HGET', keys[1], 'externalId')
end

redis.register_function { function_name = 'rtas_external_bound_1', callback = bound, flags = { 'no-writes' } }
redis.register_function('rtas_external_claim_1', claim)
redis.register_function('rtas_external_confirm_1', confirm)
-- What keeps and what frees has to work where there is no room.
redis.register_function { function_name = 'rtas_external_keep_1', callback = keep, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_external_release_1', callback = release, flags = { 'allow-oom' } }
redis.register_function('rtas_external_note_1', note)
