-- How a record is written: one string, which begins with the mark of its form.
-- FREE: last fence (16 digits), how many marks (2), marks.
-- HELD: a lone holder of a plain lock: fence (16), room (12), fence in use (16), since and end in us (16 each), id (32), store (16),
--       how many marks (2), marks, bytes of its label (4), label, actor.
-- FULL: everything else: a packed table.
-- A mark (41) is a store (16), its oldest open turn (12) and when it said so in ms (13). Digits are padded with zeros, so that texts
-- compare as their numbers do, and most locks are taken and released without reading a number.

local FREE, HELD, FULL = 'hf2f', 'hf2h', 'hf2t'
local MARK = 41
local KEEP_FENCE_MS = 3600000
local REMEMBER_MS = 60000
