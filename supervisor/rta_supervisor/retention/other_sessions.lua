#!lua name=rtas_other_sessions_1

-- Removes the hash of a session that another producer wrote, if it is as it was read and still not one of ours.
-- KEYS[1] is the hash that others read, KEYS[2] our state of it. ARGV: lastUpdated. Gives 1 if it was removed.
local function remove_other(keys, args)
  if redis.call('EXISTS', keys[2]) == 1 or redis.call('HGET', keys[1], 'lastUpdated') ~= args[1] then return 0 end
  return redis.call('UNLINK', keys[1])
end

redis.register_function { function_name = 'rtas_remove_other_1', callback = remove_other, flags = { 'allow-oom' } }
