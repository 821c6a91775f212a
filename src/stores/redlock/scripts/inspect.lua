-- The holder and the waiters of each key, and whether this node votes. Changes nothing.
-- KEYS: 1 the marker, then any number of records
-- ARGV: 1-3 see clock
-- Returns {} where it votes, else why not (see absence), then per key {the holder (see rules) or none, then
--       label and ms of each waiter} or why it cannot be read, then this node's clock (see marker)
--@include clock
--@include voter
--@include rules

local function inspect(name)
  local it = removeExpired(read(name))
  local words = {}
  for _, waiter in ipairs(it.queue) do
    table.insert(words, waiter.label)
    table.insert(words, tostring(math.max(0, now - waiter.since)))
  end
  return { it.row and describe(it.row) or {}, words }
end

local answers = { floor and {} or out() }
for at = 2, #KEYS do
  local good, answer = pcall(inspect, KEYS[at])
  answers[at] = good and answer or reason(answer)
end
answers[#KEYS + 1] = clockText()
return answers
