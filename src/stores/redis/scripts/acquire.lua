-- One attempt to get one or several keys, or one heartbeat of a waiter.
-- KEYS[1..2n]  per key its record and the ends of its readers and permits
-- KEYS[2n+1]   the highest fence of the namespace; absent in a Cluster
-- ARGV[1..4]   see head
-- ARGV[5]      how many keys, n
-- ARGV[6]      the attempt is worthless after this time of the server, in ms
-- ARGV[7]      id, 32 characters
-- ARGV[8]      mode: x exclusive, s shared, p permits of a semaphore
-- ARGV[9..10]  permits, limit
-- ARGV[11]     how long the key is kept for the holder, in us: ttl + grace
-- ARGV[12]     ttl in us
-- ARGV[13]     numbers behind its fence that it may use
-- ARGV[14]     how long the key stays taken at least, in us; 0 = no
-- ARGV[15]     how long the record lives at least, in ms
-- ARGV[16]     "1" for a place in the queue
-- ARGV[17]     bytes of the label (4 digits), label, actor
-- Returns {"granted", time, reserved fences, fence...}, {"busy", time, ms until the next attempt, position,
--         holders, and for up to three holders a row, a note and a reason}, {"ended", time} or {"late",
--         time}; times in us
--@include head
local count = tonumber(ARGV[5])
local clock = KEYS[2 * count + 1]
--@include ledger

if wall > ARGV[6] * 1000 then return { 'late', whole(wall) } end
local id = ARGV[7]
local its = {}
for at = 1, count do its[at] = open(KEYS[2 * at - 1], KEYS[2 * at], id) end
return attempt(its, {
  id = id, proc = self, mode = ARGV[8], permits = tonumber(ARGV[9]), limit = tonumber(ARGV[10]),
  hold = tonumber(ARGV[11]),
  ttl = tonumber(ARGV[12]), reserved = tonumber(ARGV[13]), keep = tonumber(ARGV[14]),
  life = tonumber(ARGV[15]),
  queue = ARGV[16] == '1', rest = ARGV[17], several = count > 1,
})
