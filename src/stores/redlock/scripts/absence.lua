-- Why a node does not vote, and what is written into its marker. Follows marker.lua

local function markerText(mark, durable, mostMs, sweptMs, quarantine, watchedMs, least)
  local words = string.format('%.0f %.0f %s %.0f %.0f', mostMs, sweptMs, quarantine, watchedMs, least)
  return run .. mark .. durable .. words
end

-- The longest ttl with its grace, and a fifth more because the clocks of clients run at different rates.
local function quarantineMs(mostMs)
  return 1.2 * (mostMs + math.max(50, mostMs / 10))
end

-- Why not: {"out", "strange" | "waiting" | "ready", "r" | "c" | "", ms that clients have to watch it yet}
local function out()
  local mostMs, cause, watchedMs
  if sign == '~' then mostMs, cause, watchedMs = string.match(marker, '^(%d+) %d+ (%a)%d+ (%d+) %d+$', 43) end
  if not mostMs then return { 'out', 'strange', '', 0 } end
  local leftMs = math.max(0, math.ceil(quarantineMs(tonumber(mostMs)) - watchedMs))
  return { 'out', leftMs > 0 and 'waiting' or 'ready', cause, leftMs }
end
