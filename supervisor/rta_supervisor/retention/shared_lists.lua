#!lua name=rtas_index_1

-- Lists that all sessions share. KEYS[1] is the list.

-- Takes members out of a sorted set, those that nobody touched since they were looked at.
-- ARGV: member, the score that was seen, and so on. Gives how many went.
local function forget(keys, args)
  local gone = 0
  for at = 1, #args, 2 do
    local score = redis.call('ZSCORE', keys[1], args[at])
    if score and tonumber(score) == tonumber(args[at + 1]) then gone = gone + redis.call('ZREM', keys[1], args[at]) end
  end
  return gone
end

-- Takes a name out of a set. ARGV: name, end of the lease. Gives 1, or 0 where the lease is over.
local function unlist(keys, args)
  local now = redis.call('TIME')
  local until_ms = tonumber(args[2])
  if until_ms > 0 and now[1] * 1000 + math.floor(now[2] / 1000) >= until_ms then return 0 end
  redis.call('SREM', keys[1], args[1])
  return 1
end

-- What makes room has to work where there is none.
redis.register_function { function_name = 'rtas_unlist_1', callback = unlist, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_forget_1', callback = forget, flags = { 'allow-oom' } }
