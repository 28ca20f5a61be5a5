#!lua name=rtas_letter_limit_1

local REMOVED_PER_CALL = 100

-- Adds a dead letter, and removes the oldest ones of the same principal where that makes more than it may have.
-- KEYS[1] is the stream of all dead letters, KEYS[2] a stream with the ids of those of the principal, oldest first. Both
-- live in one slot. ARGV: most letters of the principal, then fields and values of the letter.
-- Gives how many letters were removed. Ids of letters that an operator removed count until they are the oldest.
local function add(keys, args)
  local most = tonumber(args[1])
  local id = redis.call('XADD', keys[1], '*', unpack(args, 2))
  redis.call('XADD', keys[2], '*', 'id', id)
  local surplus = redis.call('XLEN', keys[2]) - most
  if surplus <= 0 then return 0 end
  local oldest, ids = {}, {}
  for i, entry in ipairs(redis.call('XRANGE', keys[2], '-', '+', 'COUNT', math.min(surplus, REMOVED_PER_CALL))) do
    oldest[i], ids[i] = entry[1], entry[2][2]
  end
  redis.call('XDEL', keys[2], unpack(oldest))
  return redis.call('XDEL', keys[1], unpack(ids))
end

redis.register_function('rtas_letter_add_1', add)
