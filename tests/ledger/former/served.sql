BEGIN TRANSACTION;
CREATE TABLE served_calls (key TEXT, day TEXT, calls INTEGER, cost REAL, prompt_tokens INTEGER, completion_tokens INTEGER, PRIMARY KEY (key, day)) WITHOUT ROWID;
INSERT INTO "served_calls" VALUES('app','2026-11-24',1,0.5,10,5);
CREATE TABLE served_minutes (key TEXT, minute INTEGER, requests INTEGER, PRIMARY KEY (key, minute)) WITHOUT ROWID;
INSERT INTO "served_minutes" VALUES('app',29924848,2);
COMMIT;
PRAGMA user_version = 2;
