-- The marker, and whether this node may vote: then `floor` is its floor of all fences, else nil
-- KEYS: 1 the marker
-- Follows clock.lua
--@include marker
--@include absence
identify()
