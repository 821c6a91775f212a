-- The server's calendar in microseconds since 1970. A fragment: {now} in other files stands for it.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
