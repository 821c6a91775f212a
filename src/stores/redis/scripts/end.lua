-- Ends an id: what it holds is let go of, its place in line is given up, and the keys pass to whoever is next.
-- KEYS: the record of each key
-- ARGV: 1-3 see clock; 4 id, 5 turn; then per key the last fence that was used, or "" where nobody can say; then per key
--       the oldest open turn
-- Returns 1 if it held all the keys, else 0
--@include clock

local id, turn = ARGV[4], tonumber(ARGV[5])

-- A lone holder of one key that nobody waits for: decided before a single rule is set up.
local text = #KEYS == 1 and redis.call('GET', KEYS[1])
if text and string.sub(text, 1, 4) == SHORT then
  local last, marks, gone, holder, _, _, _, _, _, fence, room, _, _, ends = cmsgpack.unpack(string.sub(text, 5))
  local used = tonumber(ARGV[6])
  if holder == id and ends > now and used then
    if last == fence + room then last = math.min(last, math.max(fence, used)) end
    local open, mark = tonumber(ARGV[7]), marks[self]
    for proc, one in pairs(marks) do
      if one[2] < now - REMEMBER_MS then marks[proc] = nil end
    end
    for one, since in pairs(gone) do
      if since < now - REMEMBER_MS then gone[one] = nil end
    end
    marks[self] = { math.max(open, mark and mark[1] or 0), now }
    if turn >= open then gone[id] = now end
    local body = SHORT .. cmsgpack.pack(last, marks, gone)
    local life = math.ceil(math.max(0, last / 1000 - now)) + KEEP_FENCE_MS
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

local found = all()
local held = rowsOf(found, id) and 1 or 0
for at, it in ipairs(found) do
  local row = find(it.holders, id)
  if row then let(it, row, tonumber(ARGV[5 + at])) end
  drop(it.line, id)
  markEnded(it, id, turn, tonumber(ARGV[5 + #KEYS + at]))
end
for _, it in ipairs(found) do settle(it) end
saveAll()
tell()
return held
