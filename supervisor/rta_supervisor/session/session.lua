#!lua name=rtas_session_2

-- Changes of one session. Both keys live in one slot: KEYS[1] is the hash that others read, KEYS[2] our state of it.
-- Nanoseconds stay decimal text throughout: a Lua number would lose their last digits.

local CLOSED = { closed = true, truncated = true, failed = true, abandoned = true }

-- Whether decimal text a is less than b.
local function less(a, b)
  local a_negative, b_negative = a:sub(1, 1) == '-', b:sub(1, 1) == '-'
  if a_negative ~= b_negative then return a_negative end
  if a_negative then a, b = b:sub(2), a:sub(2) end
  if #a ~= #b then return #a < #b end
  return a < b
end

local function lowest(a, b)
  if not a or a == '-' then return b end
  if b == '-' or not less(b, a) then return a end
  return b
end

local function highest(a, b)
  if not a or a == '-' then return b end
  if b == '-' or not less(a, b) then return a end
  return b
end

-- What is folded per session stands in one field, as the words of a report: the sums of four counts over its units,
-- start and end. Dashes: no data yet.
local NO_TOTALS = '0 0 0 0 - -'
local TOTALS = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'
local TIMES = '^%S+ %S+ %S+ %S+ (%S+) (%S+)$'

-- Words of a report: unit, four counts, start and end.
local UNIT_WORDS = 7

-- By more than that nobody counts on at once: a petabyte. And what a session has in all: sums stay whole numbers.
local COUNT_MAX = 2 ^ 50
local SUM_MAX = 2 ^ 53

-- Lua's stack has room for some thousand words of a call.
local CALL_MAX_WORDS = 2000

local function get_all(key, fields)
  if #fields <= CALL_MAX_WORDS then return redis.pcall('HMGET', key, unpack(fields)) end
  local values = {}
  for at = 1, #fields, CALL_MAX_WORDS do
    local part = redis.pcall('HMGET', key, unpack(fields, at, math.min(at + CALL_MAX_WORDS - 1, #fields)))
    if part.err then return part end
    for _, value in ipairs(part) do values[#values + 1] = value end
  end
  return values
end

local function set_all(key, words)
  for at = 1, #words, CALL_MAX_WORDS do
    redis.call('HSET', key, unpack(words, at, math.min(at + CALL_MAX_WORDS - 1, #words)))
  end
end

-- How many fields a hash has; 0 where an older ACL does not let us ask.
local function fields_of(key)
  local count = redis.pcall('HLEN', key)
  return type(count) == 'number' and count or 0
end

-- Writes fields of the hash that others read. Supervisors alone write it: what somebody else has put in its place goes,
-- and what is known of the session is written anew. Its position is lost: too low a one costs readers a longer scan.
local function write_hash(hash, state, ...)
  if type(redis.pcall('HSET', hash, ...)) == 'number' then return end
  local known = redis.call('HMGET', state, 'streamSessionId', 'streamName')
  redis.call('UNLINK', hash)
  redis.call('HSET', hash, 'streamSessionId', known[1], 'streamName', known[2], 'streamPosition', '0-0', ...)
  redis.call('EXPIRE', hash, math.max(redis.call('TTL', state), 1))
end

-- A new session, or what stands there already.
-- ARGV: streamSessionId, streamName, streamPosition, json, state, principal, now_ms, ttl_s, channel, then further fields
-- of our state and their values.
-- Gives {1 if new, streamSessionId, streamName, principal, state}.
local function open(keys, args)
  local hash, state = keys[1], keys[2]
  local there = redis.pcall('HMGET', hash, 'streamSessionId', 'streamName')
  if there.err then
    -- Something else stands in place of the hash: the state says whether there is a session. Where there is none the key
    -- is not ours to remove.
    local refused = there
    there = redis.pcall('HMGET', state, 'streamSessionId', 'streamName')
    if not there[1] then return refused end
  end
  if there[1] then
    local ours = redis.call('HMGET', state, 'principal', 'state')
    return { 0, there[1], there[2] or '', ours[1] or '', ours[2] or '' }
  end
  redis.call('HSET', hash, 'streamSessionId', args[1], 'streamName', args[2], 'streamPosition', args[3],
    'json', args[4], 'lastUpdated', args[7])
  redis.call('EXPIRE', hash, args[8])
  redis.call('UNLINK', state)
  redis.call('HSET', state, 'streamSessionId', args[1], 'streamName', args[2], 'state', args[5], 'principal', args[6],
    'version', 1, 'openedMs', args[7], 'units', 0, unpack(args, 10))
  redis.call('EXPIRE', state, args[8])
  redis.call('PUBLISH', args[9], args[5])
  return { 1, args[1], args[2], args[6], args[5] }
end

local FOLD_FIELDS = { 'streamSessionId', 'state', 'streamName', 'principal', 'totals', 'units' }

-- Joins reports of units with what is known of one session. Its units stand in args from `first` to `last`. It has
-- `max_units` units at most.
local function fold_one(state, number, principal, max_units, args, first, last)
  local fields = { unpack(FOLD_FIELDS) }
  for at = first, last, UNIT_WORDS do fields[#fields + 1] = 'u:' .. args[at] end
  local known = get_all(state, fields)
  if known.err then return { 'spoilt', '', {}, {} } end
  if known[1] ~= number then return { 'unknown', '', {}, {} } end
  if principal and known[4] ~= principal then return { 'foreign', known[3], { known[4] or '' }, {} } end
  if CLOSED[known[2]] then return { 'closed', known[3], {}, {} } end
  local sums = { (known[5] or NO_TOTALS):match(TOTALS) }
  -- Supervisors before 0.2 do not count units: all fields are then taken for units.
  local units = tonumber(known[6]) or fields_of(state)
  local units_before = units
  local implausible, surplus, changes = {}, {}, {}
  local grown = { 0, 0, 0, 0 }
  local place = #FOLD_FIELDS
  for at = first, last, UNIT_WORDS do
    place = place + 1
    local before = known[place]
    local old = { (before or NO_TOTALS):match(TOTALS) }
    local ahead, behind = false, false
    local more = {}
    for word = 1, 4 do
      more[word] = tonumber(args[at + word]) - tonumber(old[word])
      ahead, behind = ahead or more[word] > 0, behind or more[word] < 0 or more[word] > COUNT_MAX
      behind = behind or more[word] > math.max(0, SUM_MAX - tonumber(sums[word]) - grown[word])
    end
    if ahead and behind then
      implausible[#implausible + 1] = args[at]
    elseif not before and units >= max_units then
      surplus[#surplus + 1] = args[at]
    else
      if not before then units = units + 1 end
      local start_ns, end_ns = lowest(old[5], args[at + 5]), highest(old[6], args[at + 6])
      sums[5], sums[6] = lowest(sums[5], start_ns), highest(sums[6], end_ns)
      local counts = table.concat(old, ' ', 1, 4)
      if ahead then
        counts = table.concat(args, ' ', at + 1, at + 4)
        for word = 1, 4 do grown[word] = grown[word] + more[word] end
      end
      local after = counts .. ' ' .. start_ns .. ' ' .. end_ns
      if after ~= before then
        changes[#changes + 1] = fields[place]
        changes[#changes + 1] = after
      end
    end
  end
  if #changes == 0 then return { 'same', known[3], implausible, surplus } end
  for word = 1, 4 do sums[word] = string.format('%.0f', tonumber(sums[word]) + grown[word]) end
  changes[#changes + 1] = 'totals'
  changes[#changes + 1] = table.concat(sums, ' ')
  if units > units_before then
    changes[#changes + 1] = 'units'
    changes[#changes + 1] = units
  end
  set_all(state, changes)
  return { 'changed', known[3], implausible, surplus, unpack(grown) }
end

-- Reports of units, joined with what is known: counts to their maximum, times to the widest. Counts are cumulative, so of
-- two reports of a unit one is ahead of the other in everything; one that is ahead in some and behind in others is
-- implausible and left out, because a maximum can't be undone. So is one that jumps by more than anybody counts, or
-- brings its session to more than that.
-- KEYS: state of each session, of one where each has a slot of its own.
-- ARGV: most units of a session; 1 and the principal whose reports they are, or 0 and a dash where that does not matter;
-- then for each session: streamSessionId, number of units, and for each unit: unit, bursts, samples, raw bytes, stored
-- bytes, start, end
-- Gives for each {outcome, streamName, implausible units, units that are too many}; the outcome is 'changed', 'same',
-- 'closed', 'unknown', or 'spoilt' where its state is no hash. It is 'foreign' for a session of another principal, who
-- stands in place of the implausible units. Where it changed, the four counts by which it grew come after that.
local function fold(keys, args)
  local max_units = tonumber(args[1])
  local principal = args[2] == '1' and args[3]
  local answers = {}
  local at = 4
  for _, state in ipairs(keys) do
    local first = at + 2
    local last = first + tonumber(args[at + 1]) * UNIT_WORDS - 1
    answers[#answers + 1] = fold_one(state, args[at], principal, max_units, args, first, last)
    at = last + 1
  end
  return answers
end

-- Shows readers what is folded, and keeps open sessions from expiring. KEYS: hash and state of each session, of one where
-- each has a slot of its own.
-- ARGV: for each, streamSessionId and ttl_s (0 leaves it as it is)
-- Gives for each its totals, or an empty text for one that is not open.
local function refresh(keys, args)
  -- By the clock of Redis: several supervisors agree on it, and one that comes late does not turn it back.
  local now = redis.call('TIME')
  local now_ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
  local answers = {}
  for at = 1, #keys, 2 do
    local hash, state, number, ttl_s = keys[at], keys[at + 1], args[at], args[at + 1]
    local known = redis.pcall('HMGET', state, 'streamSessionId', 'state', 'totals')
    local totals = ''
    if known[1] == number and not CLOSED[known[2]] then
      if ttl_s ~= '0' then
        redis.call('EXPIRE', hash, ttl_s)
        redis.call('EXPIRE', state, ttl_s)
      end
      totals = known[3] or NO_TOTALS
      local start_ns, end_ns = totals:match(TIMES)
      if start_ns ~= '-' then
        write_hash(hash, state, 'tStart', start_ns, 'tEnd', end_ns, 'lastUpdated', now_ms)
      else
        write_hash(hash, state, 'lastUpdated', now_ms)
      end
    end
    answers[#answers + 1] = totals
  end
  return answers
end

-- New Session JSON and state, if nobody changed either in between.
-- ARGV: version that the caller read, json, state, now_ms, ttl_s, channel, then further fields of our state and their
-- values.
-- Gives 1, or 0 where the version is another one.
local function put_json(keys, args)
  local hash, state = keys[1], keys[2]
  local known = redis.call('HMGET', state, 'version', 'state')
  if known[1] ~= args[1] then return 0 end
  write_hash(hash, state, 'json', args[2], 'lastUpdated', args[4])
  local changes = { 'state', args[3] }
  for at = 7, #args do changes[#changes + 1] = args[at] end
  set_all(state, changes)
  redis.call('HINCRBY', state, 'version', 1)
  redis.call('EXPIRE', hash, args[5])
  redis.call('EXPIRE', state, args[5])
  if known[2] ~= args[3] then redis.call('PUBLISH', args[6], args[3]) end
  return 1
end

-- Notes something about a session. One that is gone by now stays gone: a field alone would live for ever.
-- ARGV: streamSessionId, field, value
local function note(keys, args)
  if redis.call('HGET', keys[2], 'streamSessionId') ~= args[1] then return 0 end
  redis.call('HSET', keys[2], args[2], args[3])
  return 1
end

-- Ids never repeat: the counter is raised to a floor, never lowered. KEYS[1] is the counter. ARGV: floor
local function raise_floor(keys, args)
  local now = redis.call('GET', keys[1])
  if not now or less(now, args[1]) then redis.call('SET', keys[1], args[1]) end
  return redis.call('GET', keys[1])
end

redis.register_function('rtas_open_2', open)
-- What frees messages and what keeps sessions has to work where there is no room.
redis.register_function { function_name = 'rtas_fold_3', callback = fold, flags = { 'allow-oom' } }
redis.register_function('rtas_refresh_4', refresh)
redis.register_function('rtas_put_json_2', put_json)
redis.register_function { function_name = 'rtas_note_1', callback = note, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_raise_floor_2', callback = raise_floor, flags = { 'allow-oom' } }
