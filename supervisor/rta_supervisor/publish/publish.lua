#!lua name=rtas_publish_1

-- The sequence of the calls to a Session Service. KEYS[1]: the hash of publishing.

-- The next sequence: above every one that was given out, and at least a floor.
-- ARGV: floor, name of the catalogue that is published from, ttl_s. Gives the sequence as text: it is larger than Lua's
-- numbers are printed exactly in general.
local function next_sequence(keys, args)
  local last = tonumber(redis.call('HGET', keys[1], 'sequence') or '0') or 0
  local sequence = math.max(last + 1, tonumber(args[1]))
  local text = string.format('%.0f', sequence)
  redis.call('HSET', keys[1], 'sequence', text, 'catalogue', args[2])
  redis.call('EXPIRE', keys[1], args[3])
  return text
end

redis.register_function('rtas_publish_next_1', next_sequence)
