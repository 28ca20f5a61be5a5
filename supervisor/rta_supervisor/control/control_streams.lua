#!lua name=rtas_lane_1

-- A control stream and our own count of what happened to its messages. KEYS[1] is the stream, KEYS[2] the count; both
-- live in one slot. Redis itself forgets how many messages were evicted before anybody read them.

local function info(...)
  local flat = redis.call('XINFO', ...)
  local found = {}
  for at = 1, #flat, 2 do found[flat[at]] = flat[at + 1] end
  return found
end

-- Without its stream a lane has lost everything: the same answer as Redis gives where the group is gone.
local function is_gone(keys)
  return redis.call('EXISTS', keys[1]) == 0 and redis.error_reply('NOGROUP No such key ' .. keys[1])
end

-- Begins to count, with a new group. ARGV: group. Gives 1, or 0 where the group is there.
local function begin(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then
    for _, flat in ipairs(redis.call('XINFO', 'GROUPS', keys[1])) do
      if flat[2] == args[1] then return 0 end
    end
  end
  redis.call('XGROUP', 'CREATE', keys[1], args[1], '0', 'MKSTREAM')
  local stream = info('STREAM', keys[1])
  redis.call('DEL', keys[2])
  redis.call('HSET', keys[2], 'settled', stream['entries-added'] - stream['length'])
  return 1
end

-- Whether one entry id comes before another. Both parts stay text: a Lua number would lose digits of large ones.
local function is_before(a, b)
  local a_ms, a_seq = a:match('^(%d+)-(%d+)$')
  local b_ms, b_seq = b:match('^(%d+)-(%d+)$')
  if a_ms == b_ms then a_ms, b_ms = a_seq, b_seq end
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  return a_ms < b_ms
end

-- Messages that are done with. Where nothing before the end of them is pending, all up to there is done with and goes in
-- one cut, which costs next to nothing; otherwise they go one by one. Those that another supervisor has settled are not
-- counted twice, and where there are such nothing is cut.
-- ARGV: group, the id after the highest of them, ids
local function settle(keys, args)
  local count = redis.call('XACK', keys[1], args[1], unpack(args, 3))
  local pending = redis.call('XPENDING', keys[1], args[1])
  if count == #args - 2 and (pending[1] == 0 or not is_before(pending[2], args[2])) then
    redis.call('XTRIM', keys[1], 'MINID', '=', args[2])
  else
    redis.call('XDEL', keys[1], unpack(args, 3))
  end
  return redis.call('HINCRBY', keys[2], 'settled', count)
end

-- A reader that is gone, if it has left nothing behind. ARGV: group, reader. Gives 1 if it is forgotten.
local function retire(keys, args)
  local gone = is_gone(keys)
  if gone then return gone end
  for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', keys[1], args[1])) do
    if flat[2] == args[2] and flat[4] == 0 then
      redis.call('XGROUP', 'DELCONSUMER', keys[1], args[1], args[2])
      return 1
    end
  end
  return 0
end

-- Of all that was ever added, what neither stands there nor is settled was evicted. What is being handled at this moment
-- may be gone from the stream already and is not counted yet. ARGV: group. Gives how many are newly missing.
local function missing(keys, args)
  local gone = is_gone(keys)
  if gone then return gone end
  local stream = info('STREAM', keys[1])
  local lost = stream['entries-added'] - stream['length'] - tonumber(redis.call('HGET', keys[2], 'settled') or 0)
  local pending = redis.call('XPENDING', keys[1], args[1])
  if pending[1] > 0 and #redis.call('XRANGE', keys[1], pending[2], pending[2]) == 0 then lost = lost - pending[1] end
  if lost <= 0 then return 0 end
  redis.call('HINCRBY', keys[2], 'settled', lost)
  redis.call('HINCRBY', keys[2], 'evicted', lost)
  return lost
end

-- What takes messages away has to work where there is no room.
redis.register_function { function_name = 'rtas_begin_1', callback = begin, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_settle_1', callback = settle, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_missing_1', callback = missing, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_retire_1', callback = retire, flags = { 'allow-oom' } }
