#!lua name=rtas_reply_1

-- One reply for a request, however often it is handled. KEYS[1] is the list. ARGV: reply, ttl_s
local function reply(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then return 0 end
  redis.call('RPUSH', keys[1], args[1])
  return redis.call('EXPIRE', keys[1], args[2])
end

redis.register_function('rtas_reply_1', reply)
