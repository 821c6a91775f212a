-- What every script begins with: who asks, and the server's clock.
-- ARGV[1]  prefix of the channels of this namespace
-- ARGV[2]  the opened store that asks, 16 characters
-- ARGV[3]  how long the key is reserved for a waiter that was notified, in ms
-- ARGV[4]  "1": one server, so that PUBLISH counts everybody who listens
local channels, self, claimUs, isOneServer = ARGV[1], ARGV[2], ARGV[3] * 1000, ARGV[4] == '1'
--@include time
