#!lua name=rtas_letters_1

-- Puts a dead letter back on its lane, once, however often it is asked for. KEYS[1] is the control stream, KEYS[2] the
-- mark that it was done; both live in one slot. ARGV: message, most entries, ttl_s
-- Gives the id of the entry, or an empty text where it was done before.
local function again(keys, args)
  if redis.call('EXISTS', keys[2]) == 1 then return '' end
  local id = redis.call('XADD', keys[1], 'MAXLEN', '~', args[2], '*', 'm', args[1])
  redis.call('SET', keys[2], id, 'EX', args[3])
  return id
end

redis.register_function('rtas_again_1', again)
