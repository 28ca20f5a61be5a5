#!lua name=rtas_archive_parts_1

-- How far the archive has a session that is still open. Both keys live in one slot: KEYS[1] is the hash that others read, KEYS[2] our state of it.

local CLOSED = { closed = true, truncated = true, failed = true, abandoned = true }

-- ARGV: streamSessionId, the value that was read before (empty: none), the new value: the last entry id that is archived, how many
-- entries had ever been added to the stream up to it, and the checksum of the last part.
-- Gives 'marked', or 'unknown', 'closed' or 'changed' where it is another one by now.
local function archived_until(keys, args)
  local known = redis.call('HMGET', keys[2], 'streamSessionId', 'state', 'archivedUntil')
  if known[1] ~= args[1] then return 'unknown' end
  -- From its closing on the session stands in the list of those that wait for the archive, with its value of then.
  if CLOSED[known[2]] then return 'closed' end
  if (known[3] or '') ~= args[2] then return 'changed' end
  redis.call('HSET', keys[2], 'archivedUntil', args[3])
  return 'marked'
end

-- It lets entries go, so it has to work where there is no room.
redis.register_function { function_name = 'rtas_archived_until_1', callback = archived_until, flags = { 'allow-oom' } }
