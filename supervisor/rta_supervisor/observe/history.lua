#!lua name=rtas_slots_1

-- Adds to counts of a span of time, and has them go when nobody looks at that time any more. KEYS[1] is the hash.
-- ARGV: ttl_s, then names and numbers.
local function count(keys, args)
  for at = 2, #args, 2 do redis.call('HINCRBY', keys[1], args[at], args[at + 1]) end
  return redis.call('EXPIRE', keys[1], args[1])
end

redis.register_function('rtas_count_1', count)
