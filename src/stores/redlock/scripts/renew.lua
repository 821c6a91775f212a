-- Moves the ends of many leases. Never recreates what is gone, never moves an end back.
-- KEYS: 1 the marker, then the record of each lease
-- ARGV: 1-3 see clock; then per lease its id, its fence as it was proposed, ttl and grace together, label and
--       the fence in use
-- Returns per lease "renewed", "gone", "revoked:" and the reason, or "failed:" and why, then this node's
--       clock (see marker); or why this node may not vote (see absence)
--@include clock
--@include voter
if not floor then return out() end
--@include rules

local function renew(name, arg)
  local it = removeExpired(read(name))
  local row = it.row
  if not row or row.id ~= ARGV[arg] or row.fence ~= tonumber(ARGV[arg + 1]) then return 'gone' end
  if row.revoked then return 'revoked:' .. row.revoked end
  row.ends = math.max(row.ends, now + ARGV[arg + 2])
  row.label, row.used = ARGV[arg + 3], tonumber(ARGV[arg + 4]) or row.used
  save(it)
  return 'renewed'
end

-- A damaged record fails its own lease only.
local answers = {}
for at = 2, #KEYS do
  local good, answer = pcall(renew, KEYS[at], 4 + (at - 2) * 5)
  answers[at - 1] = good and answer or 'failed:' .. reason(answer)
end
answers[#KEYS] = clockText()
return answers
