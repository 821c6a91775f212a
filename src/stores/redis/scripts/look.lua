-- Who holds and who waits. Changes nothing. A record that is damaged costs only its own key the answer.
-- KEYS: records of any number of keys
-- ARGV: 1-3 see clock
-- Returns per key nothing where it is free, {largest limit, {nine words per holder...},
--         {four words per waiter...}}, or "failed:" and the error
--@include clock
--@include rules
--@include guarded

local function look(name)
  local it = sweep(record(name))
  if #it.holders == 0 and #it.line == 0 then return false end
  local waiters, limit = {}, #it.holders > 0 and it.limit or 1
  for _, row in ipairs(it.line) do
    limit = math.max(limit, row.limit)
    for _, word in ipairs({ row.label, row.mode, whole(row.permits), tostring(math.max(0, now - row.since)) }) do
      table.insert(waiters, word)
    end
  end
  return { whole(limit), describe(it, {}), waiters }
end

local answers = {}
for at, name in ipairs(KEYS) do answers[at] = guarded(look, name) end
return answers
