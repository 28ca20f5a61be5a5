#!lua name=rtas_slots_2

-- The highest number that Redis counts to.
local HIGHEST = '9223372036854775807'

-- Adds to counts of a span of time, and has them go when nobody looks at that time any more. KEYS[1] is the hash.
-- ARGV: ttl_s, then names and numbers. They are what writers say: what can't be added stays at the highest number.
local function count(keys, args)
  for at = 2, #args, 2 do
    local added = redis.pcall('HINCRBY', keys[1], args[at], args[at + 1])
    if type(added) ~= 'number' then redis.call('HSET', keys[1], args[at], HIGHEST) end
  end
  return redis.call('EXPIRE', keys[1], args[1])
end

redis.register_function('rtas_count_2', count)
