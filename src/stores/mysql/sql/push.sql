-- Leaves a letter. proc, id, words.
INSERT INTO holdfast_push (proc, id, words, sent_us) VALUES (?, ?, ?, {now})
