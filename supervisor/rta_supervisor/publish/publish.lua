#!lua name=rtas_publish_1

-- The sequence of the calls to a Session Service, and how publishing goes. KEYS[1]: the hash of publishing.

-- The next sequence: above every one that was given out, and at least a floor.
-- ARGV: the sequence that the caller read before it read what it tells ('' for none), floor, name of the catalogue that
-- is published from, ttl_s. Gives the sequence as text: it is larger than Lua's numbers are printed exactly in general.
-- Nil where another one was given out since: whoever has that may tell something newer.
local function next_sequence(keys, args)
  local last = redis.call('HGET', keys[1], 'sequence') or ''
  if last ~= args[1] then
    return nil
  end
  local sequence = math.max((tonumber(last) or 0) + 1, tonumber(args[2]))
  local text = string.format('%.0f', sequence)
  redis.call('HSET', keys[1], 'sequence', text, 'catalogue', args[3])
  redis.call('EXPIRE', keys[1], args[4])
  return text
end

-- ARGV: how publishing goes, ttl_s.
local function write_status(keys, args)
  redis.call('HSET', keys[1], 'status', args[1])
  redis.call('EXPIRE', keys[1], args[2])
end

-- Sessions stay open in a full Redis: the service has to be told that they are alive.
redis.register_function { function_name = 'rtas_publish_next_1', callback = next_sequence, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_publish_status_1', callback = write_status, flags = { 'allow-oom' } }
