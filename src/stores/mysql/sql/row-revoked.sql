-- Which holders of a process were revoked. proc.
SELECT session, revoked FROM holdfast_row_holder WHERE proc = ? AND revoked IS NOT NULL
