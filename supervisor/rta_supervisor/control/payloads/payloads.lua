#!lua name=rtas_payloads_1

-- Payloads of requests that are too large for one message. KEYS[1] lists the payloads of a principal: the value of each
-- is when it expires, in ms, and the bytes that it counts as. KEYS[2] has the pieces of one; both live in one slot.

-- Stores a piece. ARGV: payload id, number, piece, ttl_s, bytes that the piece counts as, most bytes of all payloads
-- Gives 'stored', 'full' where the principal has too much, or 'other' where that piece is there and is another one.
local function store(keys, args)
  local stored = redis.call('HGET', keys[2], args[2])
  if stored then return stored == args[3] and 'stored' or 'other' end
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local total, own = 0, 0
  local rows = redis.call('HGETALL', keys[1])
  for i = 1, #rows, 2 do
    local expires_ms, bytes = string.match(rows[i + 1], '^(%d+) (%d+)$')
    if tonumber(expires_ms) <= now_ms then
      redis.call('HDEL', keys[1], rows[i])
    else
      total = total + bytes
      if rows[i] == args[1] then own = bytes end
    end
  end
  if total + args[5] > tonumber(args[6]) then return 'full' end
  redis.call('HSET', keys[2], args[2], args[3])
  redis.call('EXPIRE', keys[2], args[4])
  redis.call('HSET', keys[1], args[1], string.format('%d %d', now_ms + args[4] * 1000, own + args[5]))
  redis.call('EXPIRE', keys[1], args[4])
  return 'stored'
end

-- Removes a payload. ARGV: payload id
local function remove(keys, args)
  redis.call('UNLINK', keys[2])
  return redis.call('HDEL', keys[1], args[1])
end

redis.register_function('rtas_piece_store_1', store)
redis.register_function('rtas_payload_remove_1', remove)
