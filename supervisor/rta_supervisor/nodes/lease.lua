#!lua name=rtas_lease_1

-- Who does a duty, or is alive. KEYS[1] is the lease: the name of its owner, with a lifetime. When it ends by the clock of Redis is what
-- the owner shows with everything that it does under it: after that time Redis refuses it.

-- ARGV: owner, ttl_ms. Gives when the lease ends, in ms since the Unix epoch, or 0 where somebody else has it.
local function take(keys, args)
  local owner = redis.call('GET', keys[1])
  if owner and owner ~= args[1] then return 0 end
  redis.call('SET', keys[1], args[1], 'PX', args[2])
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000) + args[2]
end

-- ARGV: owner. Gives 1 if it was ours.
local function release(keys, args)
  if redis.call('GET', keys[1]) ~= args[1] then return 0 end
  return redis.call('DEL', keys[1])
end

-- Who makes room has to keep its lease where there is none.
redis.register_function { function_name = 'rtas_take_1', callback = take, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_release_1', callback = release, flags = { 'allow-oom' } }
