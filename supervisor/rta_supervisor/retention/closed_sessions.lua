#!lua name=rtas_archive_1

-- What becomes of a session that is closed, with the archive and without. Both keys live in one slot: KEYS[1] is the hash that others read,
-- KEYS[2] our state of it.

local CLOSED = { closed = true, truncated = true, failed = true, abandoned = true }

local function live_for(keys, ttl_s)
  redis.call('EXPIRE', keys[1], ttl_s)
  redis.call('EXPIRE', keys[2], ttl_s)
end

-- A closed session that is safe in the catalogue: readers have it for so long, then it goes. One that the archive has
-- to have first is kept longer.
-- ARGV: version that is safe, ttl_s, ttl_s while it waits for the archive (0: it does not wait)
-- Gives {outcome, streamPosition}; the outcome is 'changed' (since), 'free' or 'held' where the archive does not have it,
-- 'archived', or 'stale' where the archive has older JSON of it.
local function put_away(keys, args)
  local known = redis.call('HMGET', keys[2], 'version', 'state', 'archived', 'archivedVersion')
  if known[1] ~= args[1] or not CLOSED[known[2]] then return { 'changed', '' } end
  local position = redis.call('HGET', keys[1], 'streamPosition') or '0-0'
  redis.call('HSET', keys[2], 'safe', args[1])
  local is_held = not known[3] and args[3] ~= '0'
  live_for(keys, is_held and args[3] or args[2])
  if is_held then return { 'held', position } end
  if not known[3] then return { 'free', position } end
  return { known[4] == known[1] and 'archived' or 'stale', position }
end

-- The archive has a session. ARGV: streamSessionId, version whose JSON it has, checksum of its manifest, ttl_s
-- Gives 'marked', or 'unknown', 'open' or 'changed' where it is another one by now.
local function archived(keys, args)
  local known = redis.call('HMGET', keys[2], 'streamSessionId', 'version', 'state')
  if known[1] ~= args[1] then return 'unknown' end
  if not CLOSED[known[3]] then return 'open' end
  if known[2] ~= args[2] then return 'changed' end
  redis.call('HSET', keys[2], 'archived', args[3], 'archivedVersion', args[2])
  -- From here on it may go, but it never lives longer for it.
  if redis.call('TTL', keys[2]) > tonumber(args[4]) then live_for(keys, args[4]) end
  return 'marked'
end

-- Keeps a session that waits for the archive. ARGV: streamSessionId, ttl_s (0 leaves it as it is)
-- Gives 1, or 0 where it is gone.
local function hold_for_archive(keys, args)
  if redis.call('HGET', keys[2], 'streamSessionId') ~= args[1] then return 0 end
  if args[2] ~= '0' then live_for(keys, args[2]) end
  return 1
end

-- Notes that entries of a session were trimmed before the archive had them. ARGV: streamSessionId
local function note_cut(keys, args)
  if redis.call('HGET', keys[2], 'streamSessionId') ~= args[1] then return 0 end
  redis.call('HSET', keys[2], 'cut', 1)
  return 1
end

-- What lets sessions go, and what keeps them, has to work where there is no room.
redis.register_function { function_name = 'rtas_put_away_1', callback = put_away, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_archived_1', callback = archived, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_hold_for_archive_1', callback = hold_for_archive, flags = { 'allow-oom' } }
redis.register_function { function_name = 'rtas_note_cut_1', callback = note_cut, flags = { 'allow-oom' } }
