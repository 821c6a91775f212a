-- Moves the ends of many leases. Never recreates what is gone, never moves an end back.
-- KEYS: 1 the marker, then the record of each lease
-- ARGV: 1-3 see clock; then per lease its id, its fence as it was proposed, ttl and grace together, label and
--       the fence in use
-- Returns per lease "renewed", "gone" or "revoked:" and the reason, then this node's clock
--       (see marker); or why this node may not vote (see absence)
--@include clock
--@include voter
if not floor then return out() end
--@include rules

local answers = {}
for at = 2, #KEYS do
  local arg = 4 + (at - 2) * 5
  local it = removeExpired(read(KEYS[at]))
  local row = it.row
  if not row or row.id ~= ARGV[arg] or row.fence ~= tonumber(ARGV[arg + 1]) then answers[at - 1] = 'gone'
  elseif row.revoked then answers[at - 1] = 'revoked:' .. row.revoked
  else
    row.ends = math.max(row.ends, now + ARGV[arg + 2])
    row.label, row.used = ARGV[arg + 3], tonumber(ARGV[arg + 4]) or row.used
    save(it)
    answers[at - 1] = 'renewed'
  end
end
answers[#KEYS] = clockText()
return answers
