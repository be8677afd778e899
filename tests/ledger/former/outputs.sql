BEGIN TRANSACTION;
CREATE TABLE batches (
        batch INTEGER PRIMARY KEY AUTOINCREMENT,   -- a number is never given twice
        at TEXT NOT NULL,                -- ISO 8601, UTC, one for all of a batch
        kind TEXT NOT NULL,              -- draft
        client TEXT NOT NULL,
        request TEXT NOT NULL,           -- JSON
        asked TEXT NOT NULL,             -- hash of what was asked for
        snapshot TEXT NOT NULL,
        configuration TEXT NOT NULL,     -- hash of settings and files
        served INTEGER,                  -- number of the served configuration, where it is that
        scope TEXT NOT NULL,
        details TEXT NOT NULL,           -- JSON,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        cost REAL,                       -- what was paid; NULL: of a text, or no price known
        seconds REAL NOT NULL,
        calls INTEGER NOT NULL
    );
INSERT INTO "batches" VALUES(1,'2026-11-24T03:28:59.435Z','draft','Jane Doe','{"client": "Jane Doe", "ask_type": "donate", "topics": ["health care"], "tones": ["urgent"], "length": "short", "count": 2, "headlines": [], "bio": false}','855965b14cb657d9fe9ec99f1eafc578','snap','c0ffee',3,'tenant','{"query": "A donate text from Jane Doe about health care", "mode": "keyword", "models": ["m"], "notes": ["a note"], "cached": false, "partial": false}',100,20,0.5,1.25,1);
INSERT INTO "batches" VALUES(2,'2026-11-24T03:28:59.445Z','answer','','{"question": "why?"}','9e55739e5964afe382d11e6cf3777ccf','snap','c0ffee',NULL,'','{"id": "x"}',9,3,0.25,0.0,1);
CREATE TABLE configurations (
        configuration TEXT PRIMARY KEY,
        settings TEXT NOT NULL           -- JSON
    ) WITHOUT ROWID;
INSERT INTO "configurations" VALUES('c0ffee','{"settings":{}}');
CREATE TABLE drawn (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        batch INTEGER NOT NULL           -- batches up to this one were drawn from
    );
INSERT INTO "drawn" VALUES(1,3);
CREATE TABLE drifts (
        measure TEXT PRIMARY KEY,
        verdict TEXT NOT NULL,
        opened TEXT NOT NULL,
        text TEXT NOT NULL,              -- of the notice
        owed TEXT NOT NULL               -- JSON list of the addresses that have not got it
    ) WITHOUT ROWID;
INSERT INTO "drifts" VALUES('Faithfulness','down','2026-01-01T00:00:00Z','it fell','["mailto:a"]');
CREATE TABLE feedback (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        at TEXT NOT NULL,
        "by" TEXT NOT NULL,
        verdict TEXT NOT NULL,           -- accepted | rejected | empty
        score REAL,
        note TEXT NOT NULL
    );
INSERT INTO "feedback" VALUES(1,1,'text',1,'2026-11-24T03:28:59.444Z','ann','accepted',4.0,'fine');
CREATE TABLE hits (
        batch INTEGER NOT NULL,
        rank INTEGER NOT NULL,
        document_id TEXT NOT NULL,
        chunk_id TEXT NOT NULL,
        score REAL NOT NULL,
        weight REAL,                     -- of its rung, NULL without soft filters
        met TEXT NOT NULL,               -- JSON list of filters
        missed TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (batch, rank)
    ) WITHOUT ROWID;
INSERT INTO "hits" VALUES(1,1,'record:1','record:1:0-20',1.0,8.0,'["client=Jane Doe"]','["tone=urgent"]','the text of record:1');
INSERT INTO "hits" VALUES(1,2,'record:2','record:2:0-20',0.5,8.0,'["client=Jane Doe"]','["tone=urgent"]','the text of record:2');
CREATE TABLE items (
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,              -- text | prompt
        position INTEGER NOT NULL,       -- from 1 within its kind
        model TEXT NOT NULL,
        text TEXT NOT NULL,
        prompt INTEGER,                  -- position of the prompt that a text came of
        marks TEXT NOT NULL,             -- JSON list
        details TEXT NOT NULL,           -- JSON,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        cost REAL,                       -- what was paid; NULL: of a text, or no price known
        seconds REAL NOT NULL,
        calls INTEGER NOT NULL,
        PRIMARY KEY (batch, kind, position)
    ) WITHOUT ROWID;
INSERT INTO "items" VALUES(1,'prompt',1,'m','[{"role": "system", "content": "You write texts."}, {"role": "user", "content": "An example"}, {"role": "assistant", "content": "the text of record:1"}, {"role": "user", "content": "An example"}, {"role": "assistant", "content": "the text of record:2"}, {"role": "user", "content": "Write 2 texts"}]',NULL,'[]','{"format": "chat", "wanted": 2, "purpose": "first", "sample": 0, "reply": "1. Give now\n2. Give today", "finish": "", "error": "", "cached": false, "reply_usage": {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": null, "seconds": 0.0}}',100,20,0.5,1.25,1);
INSERT INTO "items" VALUES(1,'text',1,'m','Give now',1,'[]','{"characters": 8, "share": {"calls": 0, "prompt_tokens": 50, "completion_tokens": 10, "cost": 0.25, "seconds": 0.0}}',0,0,NULL,0.0,0);
INSERT INTO "items" VALUES(1,'text',2,'m','Give today',1,'[]','{"characters": 10, "share": {"calls": 0, "prompt_tokens": 50, "completion_tokens": 10, "cost": 0.25, "seconds": 0.0}}',0,0,NULL,0.0,0);
INSERT INTO "items" VALUES(2,'text',1,'m','because',NULL,'[]','{}',9,3,0.25,0.0,1);
CREATE TABLE measuring_days (
        day TEXT PRIMARY KEY,            -- UTC
        cost REAL NOT NULL,
        scored INTEGER NOT NULL,
        failed INTEGER NOT NULL,         -- attempts that ended in an error
        reason TEXT NOT NULL,            -- of the last error
        reached REAL                     -- the daily budget that was used up
    ) WITHOUT ROWID;
INSERT INTO "measuring_days" VALUES('2026-11-24',0.1,1,0,'',NULL);
CREATE TABLE names (
        name TEXT PRIMARY KEY,           -- the id that whoever asked for it knows it by
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        "by" TEXT NOT NULL               -- who asked for it
    ) WITHOUT ROWID;
INSERT INTO "names" VALUES('chat-7',2,'text',1,'key');
CREATE TABLE scores (
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        measure TEXT NOT NULL,
        state TEXT NOT NULL,             -- waiting, then the state of the score
        value REAL,
        reason TEXT NOT NULL,            -- why the value is missing
        judge TEXT NOT NULL,             -- models that the measure asked
        prompts TEXT NOT NULL,           -- hash of the judge's prompts and settings
        scored_at TEXT NOT NULL,         -- empty while it waits
        attempts INTEGER NOT NULL,
        due TEXT NOT NULL,               -- not tried again before
        PRIMARY KEY (batch, kind, position, measure)
    ) WITHOUT ROWID;
INSERT INTO "scores" VALUES(2,'text',1,'Faithfulness','scored',0.5,'','j','h','2026-11-24T03:28:59.446Z',1,'2026-11-24T03:28:59.446Z');
CREATE TABLE uses (
        document_id TEXT NOT NULL,
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        chunk_id TEXT NOT NULL,
        PRIMARY KEY (batch, kind, position, ordinal)
    ) WITHOUT ROWID;
INSERT INTO "uses" VALUES('record:1',1,'prompt',1,0,'record:1:0-20');
INSERT INTO "uses" VALUES('record:2',1,'prompt',1,1,'record:2:0-20');
INSERT INTO "uses" VALUES('record:1',1,'text',1,0,'record:1:0-20');
INSERT INTO "uses" VALUES('record:2',1,'text',1,1,'record:2:0-20');
INSERT INTO "uses" VALUES('record:1',1,'text',2,0,'record:1:0-20');
INSERT INTO "uses" VALUES('record:2',1,'text',2,1,'record:2:0-20');
INSERT INTO "uses" VALUES('doc',2,'text',1,0,'doc:0-5');
CREATE INDEX uses_by_document ON uses (document_id);
CREATE INDEX hits_by_document ON hits (document_id);
CREATE INDEX feedback_by_output ON feedback (batch, kind, position);
CREATE INDEX scores_waiting ON scores (due) WHERE state = 'waiting';
CREATE VIEW latest_feedback AS
        SELECT f.batch, f.kind, f.position,
            coalesce((SELECT v.verdict FROM feedback v WHERE v.batch = f.batch AND v.kind = f.kind
                AND v.position = f.position AND v.verdict != ''
                ORDER BY v.number DESC LIMIT 1), '') AS verdict,
            (SELECT s.score FROM feedback s WHERE s.batch = f.batch AND s.kind = f.kind
                AND s.position = f.position AND s.score IS NOT NULL
                ORDER BY s.number DESC LIMIT 1) AS score,
            coalesce((SELECT n.note FROM feedback n WHERE n.batch = f.batch AND n.kind = f.kind
                AND n.position = f.position AND n.note != ''
                ORDER BY n.number DESC LIMIT 1), '') AS note
        FROM (SELECT DISTINCT batch, kind, position FROM feedback) f;
CREATE VIEW outputs AS
        SELECT i.batch || '.' || CASE i.kind WHEN 'prompt' THEN 'p' ELSE '' END || i.position AS id,
            i.batch, b.at, i.kind,
            CASE i.kind WHEN 'prompt' THEN 'prompt' ELSE i.model END AS source,
            i.model, i.text,
            CASE WHEN i.prompt IS NULL THEN '' ELSE i.batch || '.p' || i.prompt END AS prompt,
            i.marks, b.client, b.request, b.snapshot, b.configuration, b.served, b.scope,
            coalesce(f.verdict, '') AS verdict, f.score, coalesce(f.note, '') AS note,
            i.prompt_tokens, i.completion_tokens, i.cost, i.seconds, i.calls, i.details,
            CAST(json_extract(i.details, '$.share.cost') AS REAL) AS share_cost,
            i.position, b.asked
        FROM items i JOIN batches b USING (batch)
            LEFT JOIN latest_feedback f
            ON f.batch = i.batch AND f.kind = i.kind AND f.position = i.position;
CREATE VIEW scored AS
        SELECT s.batch || '.' || s.position AS id, s.batch, b.at, s.measure, s.state, s.value,
            s.reason, s.judge, s.prompts, s.scored_at, s.attempts, i.model, b.snapshot,
            b.configuration, b.served, b.scope,
            coalesce(json_extract(b.request, '$.persona'), '') AS persona,
            coalesce(json_extract(i.details, '$.name'), '') AS name
        FROM scores s JOIN batches b USING (batch)
            JOIN items i ON i.batch = s.batch AND i.kind = s.kind AND i.position = s.position;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('batches',3);
INSERT INTO "sqlite_sequence" VALUES('feedback',1);
COMMIT;
PRAGMA user_version = 4;
