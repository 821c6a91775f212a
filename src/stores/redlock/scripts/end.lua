-- Ends an id: what it holds is let go of, its place in line is given up, and the key is kept for whoever is next.
-- KEYS: 1 the record
-- ARGV: 1-3 see clock; 4 id, 5 turn, 6 the last fence that was used, or "" where nobody can say, 7 oldest open turn
-- Returns 1 if it held the key, else 0
--@include clock

local id, turn, used, open = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

-- A lone holder of a key that nobody waits for: decided before a single rule is set up.
local text = redis.call('GET', KEYS[1])
if text and used and string.sub(text, 1, 4) == SHORT then
  local c, marks, gone, holder, _, fence, room, _, _, ends = cmsgpack.unpack(string.sub(text, 5))
  if holder == id and ends > now then
    if c == fence + room then c = math.min(c, math.max(fence, used)) end
    local mark = marks[self]
    for proc, one in pairs(marks) do
      if one[2] < now - REMEMBER_MS then marks[proc] = nil end
    end
    for one, since in pairs(gone) do
      if since < now - REMEMBER_MS then gone[one] = nil end
    end
    marks[self] = { math.max(open, mark and mark[1] or 0), now }
    if turn >= open then gone[id] = now end
    local body = SHORT .. cmsgpack.pack(c, marks, gone)
    local life = math.ceil(math.max(0, c / 1000 - now)) + KEEP_FENCE_MS
    -- When memory is full Redis refuses this as a first write, and lets it pass as a second one.
    local set = redis.pcall('SET', KEYS[1], body, 'PX', life)
    if set.err then
      redis.call('PEXPIRE', KEYS[1], life)
      redis.call('SET', KEYS[1], body, 'PX', life)
    end
    return 1
  end
end
--@include rules

local it = sweep(read(KEYS[1]))
local held = it.row and it.row.id == id
if held then let(it, used) end
leaveLine(it, id)
markEnded(it, id, turn, open)
settle(it)
save(it)
tell()
return held and 1 or 0
