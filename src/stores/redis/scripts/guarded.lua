-- What `run` returns, or "failed:" and its error: for steps on many records, of which one may be damaged.
-- `run` must not have changed anything when it fails.
local function guarded(run, a, b)
  local done, answer = pcall(run, a, b)
  if done then return answer end
  return 'failed:' .. (type(answer) == 'table' and answer.err or tostring(answer))
end
