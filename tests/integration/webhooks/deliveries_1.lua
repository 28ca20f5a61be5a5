#!lua name=rtas_hook_1

-- Deliveries to one target that wait for their turn. KEYS[1] is a sorted set of delivery ids by the time in ms at which
-- each is due, KEYS[2] a hash with their bodies, KEYS[3] a hash with how often each was tried, KEYS[4] a string that is
-- there for a while after one delivery was done with; all live in one slot.

-- A delivery. One that waits already or was just done with is not doubled: two supervisors may find the same note. Where
-- there are too many, the one that is due first goes.
-- ARGV: id, body, due_ms, max_pending, ttl_s. Gives the ids that had to go.
local function add(keys, args)
  local gone = {}
  if redis.call('EXISTS', keys[4]) == 0 and redis.call('HSETNX', keys[2], args[1], args[2]) == 1 then
    redis.call('ZADD', keys[1], args[3], args[1])
    local over = redis.call('ZCARD', keys[1]) - tonumber(args[4])
    if over > 0 then gone = redis.call('ZRANGE', keys[1], 0, over - 1) end
    for _, id in ipairs(gone) do
      redis.call('ZREM', keys[1], id)
      redis.call('HDEL', keys[2], id)
      redis.call('HDEL', keys[3], id)
    end
  end
  for at = 1, 3 do redis.call('EXPIRE', keys[at], args[5]) end
  return gone
end

-- Takes the delivery that is due first, for so long: who dies with it leaves it to others after that.
-- ARGV: now_ms, take_ms, ttl_s. Gives {id, body, which try this is}, or {ms until one is due}, or {} where none waits.
local function take(keys, args)
  local first = redis.call('ZRANGE', keys[1], 0, 0, 'WITHSCORES')
  if #first == 0 then return {} end
  local wait_ms = tonumber(first[2]) - tonumber(args[1])
  if wait_ms > 0 then return { math.ceil(wait_ms) } end
  redis.call('ZADD', keys[1], args[1] + args[2], first[1])
  local try = redis.call('HINCRBY', keys[3], first[1], 1)
  redis.call('EXPIRE', keys[3], args[3])
  return { first[1], redis.call('HGET', keys[2], first[1]) or '', try }
end

-- ARGV: id, due_ms
local function put_back(keys, args)
  return redis.call('ZADD', keys[1], 'XX', args[2], args[1])
end

-- Delivered, or given up. ARGV: id, for how long to remember it in s
local function settle(keys, args)
  redis.call('SET', keys[4], '', 'EX', args[2])
  redis.call('ZREM', keys[1], args[1])
  redis.call('HDEL', keys[2], args[1])
  redis.call('HDEL', keys[3], args[1])
  return 1
end

redis.register_function('rtas_hook_add_1', add)
redis.register_function('rtas_hook_take_1', take)
redis.register_function('rtas_hook_put_back_1', put_back)
redis.register_function { function_name = 'rtas_hook_settle_1', callback = settle, flags = { 'allow-oom' } }
