#!lua name=rtas_configs_1

-- Counts a configuration that a principal publishes. KEYS[1] has those of the last time: the value of each is when it
-- stops to count, in ms, and the bytes that it counts as.
-- ARGV: identifier, bytes, span_s in which it counts, most configurations, most bytes of all
-- Gives 'counted', or 'configs' or 'config_bytes' for the limit that it would exceed.
local function count(keys, args)
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local number, total = 0, 0
  local rows = redis.call('HGETALL', keys[1])
  for i = 1, #rows, 2 do
    local until_ms, bytes = string.match(rows[i + 1], '^(%d+) (%d+)$')
    if not until_ms or tonumber(until_ms) <= now_ms then
      redis.call('HDEL', keys[1], rows[i])
    elseif rows[i] ~= args[1] then
      number = number + 1
      total = total + bytes
    end
  end
  if number + 1 > tonumber(args[4]) then return 'configs' end
  if total + args[2] > tonumber(args[5]) then return 'config_bytes' end
  redis.call('HSET', keys[1], args[1], string.format('%d %d', now_ms + args[3] * 1000, args[2]))
  redis.call('EXPIRE', keys[1], args[3])
  return 'counted'
end

redis.register_function('rtas_config_count_1', count)
