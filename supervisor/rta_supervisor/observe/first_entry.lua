#!lua name=rtas_look_1

-- The id of the first entry of a stream, without its data, which may be large. KEYS[1] is the stream. Nil where it is empty.
local function first_id(keys)
  local first = redis.call('XRANGE', keys[1], '-', '+', 'COUNT', 1)
  return first[1] and first[1][1] or nil
end

redis.register_function { function_name = 'rtas_first_id_1', callback = first_id, flags = { 'no-writes' } }
