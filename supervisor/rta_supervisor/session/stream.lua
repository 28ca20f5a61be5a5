#!lua name=rtas_stream_2

-- Entries of a session in its stream that are not data. KEYS[1] is the stream, KEYS[2] the gate of the session, KEYS[3]
-- the marks of its units, KEYS[4] what was told already; all live in one slot. The gate goes from open to sealed to
-- finished, and writers watch it. A supervisor may come late with what another has told by then: nothing older is told
-- after something newer, and nothing at all where there is no gate.

local function server_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Whether the lease under which a call is made is over. 0: it needs none.
local function is_over(until_ms)
  return tonumber(until_ms) > 0 and server_ms() >= tonumber(until_ms)
end

-- Whether decimal text a is less than b.
local function less(a, b)
  local a_negative, b_negative = a:sub(1, 1) == '-', b:sub(1, 1) == '-'
  if a_negative ~= b_negative then return a_negative end
  if a_negative then a, b = b:sub(2), a:sub(2) end
  if #a ~= #b then return #a < #b end
  return a < b
end

-- What was told of a session is one text: version of its JSON, start and end of its time range or dashes before there is
-- one, and a last word after its last entry. What does not read so tells nothing.
local function told_of(text)
  local version, start_ns, end_ns, over = (text or ''):match('^(%d+) (%S+) (%S+) ?(%a*)$')
  return version or '0', start_ns or '-', end_ns or '-', over == 'over'
end

-- The text of a key, or false where there is none or a writer has put something else there.
local function text_of(key)
  local text = redis.pcall('GET', key)
  return type(text) == 'string' and text
end

-- Sets a text in place of whatever stands there, which may be large.
local function put_text(key, text, ttl_s)
  if not text_of(key) then redis.call('UNLINK', key) end
  redis.call('SET', key, text, 'EX', ttl_s)
end

-- Notes a version of the JSON as told; the time range stays.
local function note_version(shown, version, ttl_s, is_last)
  local _, start_ns, end_ns, over = told_of(text_of(shown))
  local words = { version, start_ns, end_ns, (over or is_last) and 'over' or nil }
  put_text(shown, table.concat(words, ' '), ttl_s)
end

-- The first entry: opens the gate. Repeating it changes nothing.
-- ARGV: streamSessionId, data, version, ttl_s
-- Gives the id of the entry, or an empty text where the gate stood there already.
local function announce(keys, args)
  if redis.call('EXISTS', keys[2]) == 1 then return '' end
  local id = redis.call('XADD', keys[1], '*', 'id', args[1], 'data', args[2])
  redis.call('SET', keys[2], 'open', 'EX', args[4])
  put_text(keys[4], args[3] .. ' - -', args[4])
  return id
end

-- New Session JSON, unless as new a version was told. ARGV: streamSessionId, data, version, ttl_s
local function tell(keys, args)
  local gate = text_of(keys[2])
  if not gate or not less(told_of(text_of(keys[4])), args[3]) then return '' end
  note_version(keys[4], args[3], args[4], false)
  -- Of a session that has ended nobody watches the gate any more.
  if gate == 'finished' then redis.call('EXPIRE', keys[2], args[4]) end
  return redis.call('XADD', keys[1], '*', 'id', args[1], 'data', args[2])
end

-- The time range of one session, if it is wider than what was told. Gives 1 if it was, or the error where a writer spoilt
-- the keys of its session: that is no other's loss.
local function show_one(stream, gate, shown, number, data, start_ns, end_ns, ttl_s)
  local text = redis.pcall('GET', shown)
  if type(text) == 'table' then return text end
  if not text then
    local standing = redis.pcall('GET', gate)
    if type(standing) == 'table' then return standing end
    if not standing or standing == 'finished' then return 0 end
  end
  local version, first, last, over = told_of(text)
  if over or (first == start_ns and last == end_ns) then return 0 end
  if first ~= '-' and (less(first, start_ns) or less(end_ns, last)) then return 0 end
  local told = version .. ' ' .. start_ns .. ' ' .. end_ns
  -- It lives as long as the gate, which is looked after.
  if text then redis.call('SET', shown, told, 'KEEPTTL') else redis.call('SET', shown, told, 'EX', ttl_s) end
  redis.call('XADD', stream, '*', 'id', number, 'data', data)
  return 1
end

-- Time ranges of sessions of one stream. KEYS: the stream, then gate and what was told already of each session.
-- ARGV: ttl_s, then for each: streamSessionId, data, tStart, tEnd
-- Gives for each whether it was told, or its error.
local function show(keys, args)
  local answers = {}
  for at = 2, #keys, 2 do
    local word = at * 2 - 2
    answers[#answers + 1] = show_one(keys[1], keys[at], keys[at + 1], args[word], args[word + 1], args[word + 2],
      args[word + 3], args[1])
  end
  return answers
end

-- More than that is read in parts.
local SMALL_FIELDS, SMALL_BYTES = 200, 100000

-- All of a hash that is small; false where it is not, or a writer has put something else there, or an older ACL does not
-- let us ask.
local function small_hash(key)
  local fields = redis.pcall('HLEN', key)
  if fields == 0 then return {} end
  if type(fields) ~= 'number' or fields > SMALL_FIELDS then return false end
  if redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) > SMALL_BYTES then return false end
  return redis.call('HGETALL', key)
end

-- No burst is taken from here on, so that the marks are final. Gives {1, the marks where they are few, or nothing}, or
-- nothing at all where the lease is over.
-- ARGV: ttl_s, end of the lease
local function seal(keys, args)
  if is_over(args[2]) then return false end
  if text_of(keys[2]) ~= 'finished' then put_text(keys[2], 'sealed', args[1]) end
  return { 1, small_hash(keys[3]) }
end

-- The last entry. Repeating it changes nothing. Where a writer has used up the ids of the stream, or put something else
-- in its place, the session ends without this entry.
-- ARGV: streamSessionId, data, version, ttl_s
-- Gives an empty text, or why there is no last entry.
local function finish(keys, args)
  local gate = text_of(keys[2])
  if not gate or gate == 'finished' then return '' end
  local id = redis.pcall('XADD', keys[1], '*', 'id', args[1], 'data', args[2])
  local mistake = type(id) == 'table' and id.err
  if mistake and not (mistake:match('^WRONGTYPE') or mistake:match('^ERR')) then return id end
  put_text(keys[2], 'finished', args[4])
  redis.call('EXPIRE', keys[3], args[4])
  note_version(keys[4], args[3], args[4], true)
  return mistake or ''
end

-- Keeps the gate of an open session, and what was told of it, from expiring. Touching the gate makes writers repeat a
-- transaction, so it is done once in half a lifetime.
-- ARGV: ttl_s
local function keep(keys, args)
  local left_s = redis.call('TTL', keys[2])
  local is_due = left_s >= 0 and left_s < tonumber(args[1]) / 2
  if not is_due or text_of(keys[2]) ~= 'open' then return 0 end
  redis.call('EXPIRE', keys[4], args[1])
  return redis.call('EXPIRE', keys[2], args[1])
end

local MEMORY_SAMPLES = 1000

-- Whether entry id a comes before b. Both halves have up to 20 digits, too many for a Lua number.
local function before(a, b)
  local a_ms, a_seq = a:match('(%d+)-(%d+)')
  local b_ms, b_seq = b:match('(%d+)-(%d+)')
  if a_ms == b_ms then a_ms, b_ms = a_seq, b_seq end
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  return a_ms < b_ms
end

-- How many of the oldest entries are too many.
local function surplus(stream, length, max_entries, max_bytes)
  local over = length - max_entries
  if max_bytes > 0 then
    local used = redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', MEMORY_SAMPLES)
    if used > max_bytes then over = math.max(over, math.ceil(length * (used - max_bytes) / used)) end
  end
  return math.min(over, length - 1)
end

-- The oldest `count` entries below `below`. Whole nodes first, which is cheap; then, if asked for, the rest, which is
-- less than a node.
local function drop(stream, count, below, exact)
  local removed = redis.call('XTRIM', stream, 'MINID', '~', below, 'LIMIT', count)
  -- Nothing is below the lowest id, and Redis takes it for a mistake.
  if removed > 0 or not exact or below == '0-0' then return removed end
  local oldest = redis.call('XRANGE', stream, '-', '(' .. below, 'COUNT', count)
  if #oldest == 0 then return 0 end
  local kept = redis.call('XRANGE', stream, '(' .. oldest[#oldest][1], '+', 'COUNT', 1)
  if #kept == 0 then return redis.call('XTRIM', stream, 'MINID', '=', below) end
  return redis.call('XTRIM', stream, 'MINID', '=', kept[1][1])
end

-- Removes oldest entries, never one at or above `below`. Repeated until it removes nothing. Only KEYS[1] is used.
-- ARGV: max_entries, max_bytes (0: any), max_age_ms (0: any), below, most entries to remove, 1 for exact, end of the lease
-- Gives the number of entries removed.
local function trim(keys, args)
  if is_over(args[7]) then return 0 end
  local stream = keys[1]
  local max_entries, max_bytes, max_age_ms = tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
  local below, most, exact = args[4], tonumber(args[5]), args[6] == '1'
  local length = redis.call('XLEN', stream)
  if length == 0 or max_entries < 1 then return 0 end
  local removed = 0
  local over = math.min(surplus(stream, length, max_entries, max_bytes), most)
  if over > 0 then removed = drop(stream, over, below, exact) end
  if max_age_ms > 0 and removed < most then
    local oldest = string.format('%.0f-0', math.max(server_ms() - max_age_ms, 0))
    removed = removed + drop(stream, most - removed, before(oldest, below) and oldest or below, exact)
  end
  return removed
end

local MADE_UP_AHEAD_MS = 24 * 3600 * 1000

-- Removes a stream that got no entry for a while. Only KEYS[1] is used.
-- ARGV: idle_ms
-- Gives 0 if it is gone, else the time of its last entry in ms, or now if that stands in the future.
local function remove(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then return 0 end
  local info = redis.call('XINFO', 'STREAM', keys[1])
  local now_ms = server_ms()
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' then
      local last_ms = tonumber(info[at + 1]:match('%d+'))
      -- An id that a writer made up, far ahead, says nothing: such a stream takes no entries any more.
      local is_made_up = last_ms > now_ms + MADE_UP_AHEAD_MS
      if last_ms > now_ms - tonumber(args[1]) and not is_made_up then return math.min(last_ms, now_ms) end
    end
  end
  redis.call('UNLINK', keys[1])
  return 0
end

redis.register_function('rtas_announce_3', announce)
redis.register_function('rtas_tell_3', tell)
redis.register_function('rtas_show_4', show)
redis.register_function('rtas_seal_2', seal)
redis.register_function('rtas_finish_3', finish)
-- What makes room, and what keeps sessions, has to work where there is none.
redis.register_function { function_name = 'rtas_keep_2', callback = keep, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_trim_2', callback = trim, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_remove_2', callback = remove, flags = { 'allow-oom' } }
