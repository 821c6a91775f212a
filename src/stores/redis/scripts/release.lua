-- Ends an id: what it holds is released, its place in the queue is given up, and the next waiters are called.
-- KEYS[1..2n+1]  see acquire
-- ARGV[1..4]     see head
-- ARGV[5]        how many keys, n
-- ARGV[6]        id
-- ARGV[7]        until when attempts of this id may still arrive, by the server's clock in ms; "" if all of
--                them were answered
-- ARGV[8..]      per key the last fence that was used, or "" where nobody can say
-- Returns 1 if it held all the keys, else 0
--@include head
local count = tonumber(ARGV[5])
local clock = KEYS[2 * count + 1]
--@include ledger

local id, its, used = ARGV[6], {}, {}
for at = 1, count do
  its[at] = open(KEYS[2 * at - 1], KEYS[2 * at], id)
  used[at] = tonumber(ARGV[7 + at])
end
local held = finish(its, id, used)
-- An attempt that is still under way must change nothing (P8). When memory is full this is refused; such an
-- attempt would be too.
local lateMs, it = tonumber(ARGV[7]), its[1]
if lateMs and lateMs * 1000 > wall and not it.isOld and not it.isUnknown then
  it.ended = it.ended .. id .. fmt('%013.0f', lateMs)
  local leftMs = pruneEnded(it)
  local set = redis.pcall('HSET', it.name, 'v', VERSION, 'ended', it.ended)
  if type(set) == 'number' then call('PEXPIRE', it.name, whole(math.max(leftMs, call('PTTL', it.name)))) end
end
return held
