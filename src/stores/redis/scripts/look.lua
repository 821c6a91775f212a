-- Who holds and who waits. Changes nothing.
-- KEYS: records of any number of keys
-- ARGV: 1-3 see clock
-- Returns per key nothing where it is free, else {limit, {nine words per holder...}, {four words per waiter...}}
--@include clock
--@include rules

local answers = {}
for at, it in ipairs(all()) do
  answers[at] = false
  if #it.holders > 0 or #it.line > 0 then
    local waiters = {}
    for _, row in ipairs(it.line) do
      for _, word in ipairs({ row.label, row.mode, whole(row.permits), tostring(math.max(0, now - row.since)) }) do
        table.insert(waiters, word)
      end
    end
    answers[at] = { whole(it.limit), describe(it, {}), waiters }
  end
end
return answers
