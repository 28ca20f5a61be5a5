#!lua name=rtas_hook_2

-- Deliveries to one target. Principals take turns, and the sessions of a principal do: whoever has many deliveries
-- delays nobody else's. All keys are in one slot:
--
-- KEYS[1] due      sorted set: ids of all deliveries by the time in ms at which each is due
-- KEYS[2] bodies   hash by id
-- KEYS[3] tries    hash by id: how often each was tried
-- KEYS[4] ready    sorted set, scores 0: places of deliveries that may be taken
-- KEYS[5] later    sorted set: places of deliveries that are taken or failed, by the time in ms at which each is due
-- KEYS[6] order    sorted set, scores 0: "principal NUL rank NUL id" of all deliveries
-- KEYS[7] places   hash by id
-- KEYS[8] turns    hash: the principal that was served last, and the session that was, for each principal
-- KEYS[9]          a string that is there for a while after one delivery was completed
--
-- A place is "principal NUL session NUL rank NUL id". Version 1 of this library knows the first three keys only and may
-- run beside this one: `due` decides what there is and when it is due, and the other keys follow it when they are used.

local DUE, BODIES, TRIES, READY, LATER, ORDER, PLACES, TURNS, DONE = 1, 2, 3, 4, 5, 6, 7, 8, 9
local CATCH_UP = 100 -- entries of `ready` and `later` that one call looks at
local SURPLUS_MAX = 16 -- deliveries that one call gives back as too many
local IN_FLIGHT = 16 -- deliveries that may be posted at this moment, before those that wait
local PRINCIPALS_MAX = 100 -- principals that are compared where the target has too many deliveries

local function expire(keys, ttl_s)
  for at = DUE, TURNS do redis.call('EXPIRE', keys[at], ttl_s) end
end

-- Entries of a sorted set by text. Not by ZRANGEBYLEX, and none are counted by ZLEXCOUNT: the roles in conf/acl of
-- version 0.1.0 grant neither.
local function range(key, from, to, offset, count)
  return redis.call('ZRANGE', key, from, to, 'BYLEX', 'LIMIT', offset, count)
end

-- The first entry of a sorted set by text after a bound.
local function first(key, from, to)
  return range(key, from, to, 0, 1)[1]
end

-- Bounds of the entries that begin with these parts.
local function bounds(parts)
  return '[' .. parts .. '\0', '(' .. parts .. '\1'
end

local function parse(place)
  local principal, session, rank, id = place:match('^(%Z*)%z(.*)%z(%d+)%z(%Z+)$')
  return { principal = principal, session = session, rank = rank, id = id }
end

local function enlist(keys, principal, session, rank, id)
  local place = table.concat({ principal, session, rank, id }, '\0')
  redis.call('HSET', keys[PLACES], id, place)
  redis.call('ZADD', keys[ORDER], 0, table.concat({ principal, rank, id }, '\0'))
  redis.call('ZADD', keys[READY], 0, place)
end

local function forget(keys, id)
  local place = redis.call('HGET', keys[PLACES], id)
  if not place then return end
  local parts = parse(place)
  redis.call('ZREM', keys[READY], place)
  redis.call('ZREM', keys[LATER], place)
  redis.call('ZREM', keys[ORDER], table.concat({ parts.principal, parts.rank, id }, '\0'))
  redis.call('HDEL', keys[PLACES], id)
end

-- The oldest deliveries of a principal, at most `count`. Those that are posted at this moment are left out if there are
-- others.
local function oldest(keys, principal, count, now_ms)
  local waiting, taken = {}, {}
  local from, to = bounds(principal)
  for _, entry in ipairs(range(keys[ORDER], from, to, 0, count + IN_FLIGHT)) do
    local id = entry:match('%Z+$')
    local due_ms = redis.call('ZSCORE', keys[DUE], id)
    if not due_ms then
      forget(keys, id)
    elseif tonumber(due_ms) <= now_ms then
      waiting[#waiting + 1] = id
    else
      taken[#taken + 1] = id
    end
  end
  local ids = #waiting > 0 and waiting or taken
  return { unpack(ids, 1, math.min(count, #ids)) }
end

-- How many of the entries that begin with these parts are past a limit: at most `SURPLUS_MAX`.
local function count_past(key, parts, limit)
  local from, to = bounds(parts)
  return #range(key, from, to, limit, SURPLUS_MAX)
end

-- The principal that has most deliveries. One that has less than twice as many as another may stand behind it.
local function largest_principal(keys)
  local largest, most, after = '', 0, '-'
  for _ = 1, PRINCIPALS_MAX do
    local entry = first(keys[ORDER], after, '+')
    if not entry then break end
    local principal = entry:match('^%Z*')
    local from, to = bounds(principal)
    while #range(keys[ORDER], from, to, most, 1) > 0 do
      largest, most = principal, 2 * most + 1
    end
    after = to
  end
  return largest
end

-- Deliveries that are too many, as {limit, principal, id, body} each. They stay until they are settled: the caller keeps
-- them elsewhere first.
local function surplus(keys, principal, session, now_ms, limits)
  local limit, whose, ids = 'session', principal, {}
  local of_session = principal .. '\0' .. session
  local over = count_past(keys[READY], of_session, limits.session)
  if over > 0 then
    local from, to = bounds(of_session)
    for _, place in ipairs(range(keys[READY], from, to, 0, over)) do
      ids[#ids + 1] = parse(place).id
    end
  else
    limit, over = 'principal', count_past(keys[ORDER], principal, limits.principal)
    if over <= 0 then
      limit, over = 'target', redis.call('ZCARD', keys[DUE]) - limits.target
      if over > 0 then whose = largest_principal(keys) end
    end
    if over > 0 then ids = oldest(keys, whose, math.min(over, SURPLUS_MAX), now_ms) end
  end
  local found = {}
  for _, id in ipairs(ids) do
    found[#found + 1] = { limit, whose, id, redis.call('HGET', keys[BODIES], id) or '' }
  end
  return found
end

-- A delivery. One that is queued or was just completed is not doubled: two supervisors may find the same note.
-- ARGV: id, body, due_ms, principal, session, rank, ttl_s, then the limits of a session, a principal and the target.
local function add(keys, args)
  local id, body, due_ms, principal, session, rank, ttl_s = unpack(args, 1, 7)
  local found = {}
  if redis.call('EXISTS', keys[DONE]) == 0 and redis.call('HSETNX', keys[BODIES], id, body) == 1 then
    redis.call('ZADD', keys[DUE], due_ms, id)
    enlist(keys, principal, session, rank, id)
    local limits = { session = tonumber(args[8]), principal = tonumber(args[9]), target = tonumber(args[10]) }
    found = surplus(keys, principal, session, tonumber(due_ms), limits)
  end
  expire(keys, ttl_s)
  return found
end

-- Makes ready what is due: deliveries that were taken or failed, and those of version 1, which have no place yet.
local function make_ready(keys, now_ms)
  for _, place in ipairs(redis.call('ZRANGEBYSCORE', keys[LATER], '-inf', now_ms, 'LIMIT', 0, CATCH_UP)) do
    redis.call('ZREM', keys[LATER], place)
    redis.call('ZADD', keys[READY], 0, place)
  end
  local id = redis.call('ZRANGEBYSCORE', keys[DUE], '-inf', now_ms, 'LIMIT', 0, 1)[1]
  if not id then return end
  local place = redis.call('HGET', keys[PLACES], id)
  if place then
    if redis.call('ZREM', keys[LATER], place) == 1 then redis.call('ZADD', keys[READY], 0, place) end
  else
    enlist(keys, '', '', ('%015d'):format(redis.call('ZSCORE', keys[DUE], id)), id)
  end
end

-- The place whose turn it is: of the next principal by name its next session by name.
local function next_place(keys)
  local last = redis.call('HGET', keys[TURNS], 'last')
  local place = (last and first(keys[READY], '(' .. last .. '\1', '+')) or first(keys[READY], '-', '+')
  if not place then return nil end
  local principal = place:match('^%Z*')
  local session = redis.call('HGET', keys[TURNS], 'of:' .. principal)
  local to = '(' .. principal .. '\1'
  return (session and first(keys[READY], '(' .. principal .. '\0' .. session .. '\1', to))
    or first(keys[READY], '[' .. principal .. '\0', to)
end

-- Takes the delivery whose turn it is, for so long: after that others may take it.
-- ARGV: now_ms, take_ms, ttl_s. Gives {id, body, which try this is, principal}, or {ms until one is due}, or {} where
-- none is queued.
local function take(keys, args)
  local now_ms, until_ms = tonumber(args[1]), args[1] + args[2]
  make_ready(keys, now_ms)
  for _ = 1, CATCH_UP do
    local place = next_place(keys)
    if not place then break end
    local parts = parse(place)
    local due_ms = redis.call('ZSCORE', keys[DUE], parts.id)
    if not due_ms then
      forget(keys, parts.id)
    else
      local is_free = tonumber(due_ms) <= now_ms
      redis.call('ZREM', keys[READY], place)
      redis.call('ZADD', keys[LATER], is_free and until_ms or due_ms, place)
      if is_free then
        redis.call('ZADD', keys[DUE], until_ms, parts.id)
        redis.call('HSET', keys[TURNS], 'last', parts.principal, 'of:' .. parts.principal, parts.session)
        local try = redis.call('HINCRBY', keys[TRIES], parts.id, 1)
        expire(keys, args[3])
        return { parts.id, redis.call('HGET', keys[BODIES], parts.id) or '', try, parts.principal }
      end
    end
  end
  expire(keys, args[3])
  local head = redis.call('ZRANGE', keys[DUE], 0, 0, 'WITHSCORES')
  if #head == 0 then return {} end
  return { math.max(0, math.ceil(tonumber(head[2]) - now_ms)) }
end

-- ARGV: id, due_ms, ttl_s
local function put_back(keys, args)
  if not redis.call('ZSCORE', keys[DUE], args[1]) then return 0 end
  redis.call('ZADD', keys[DUE], args[2], args[1])
  local place = redis.call('HGET', keys[PLACES], args[1])
  if place then
    redis.call('ZREM', keys[READY], place)
    redis.call('ZADD', keys[LATER], args[2], place)
  end
  expire(keys, args[3])
  return 1
end

-- Delivered, or given up. ARGV: id, for how long to remember it in s
local function settle(keys, args)
  redis.call('SET', keys[DONE], '', 'EX', args[2])
  redis.call('ZREM', keys[DUE], args[1])
  redis.call('HDEL', keys[BODIES], args[1])
  redis.call('HDEL', keys[TRIES], args[1])
  forget(keys, args[1])
  return 1
end

redis.register_function('rtas_hook_add_2', add)
redis.register_function('rtas_hook_take_2', take)
redis.register_function('rtas_hook_put_back_2', put_back)
redis.register_function { function_name = 'rtas_hook_settle_2', callback = settle, flags = { 'allow-oom' } }
