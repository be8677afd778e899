"""The tables of outputs, feedback, scores and drift."""

from __future__ import annotations

from ._database import Forgets

_COUNTS = """
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        cost REAL,                       -- what was paid; NULL: of a text, or no price known
        seconds REAL NOT NULL,
        calls INTEGER NOT NULL"""

OUTPUT_STATEMENTS = (
    f"""CREATE TABLE IF NOT EXISTS batches (
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
        details TEXT NOT NULL,           -- JSON{"," + _COUNTS}
    )""",
    f"""CREATE TABLE IF NOT EXISTS items (
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,              -- text | prompt
        position INTEGER NOT NULL,       -- from 1 within its kind
        model TEXT NOT NULL,
        text TEXT NOT NULL,
        prompt INTEGER,                  -- position of the prompt that a text came of
        marks TEXT NOT NULL,             -- JSON list
        details TEXT NOT NULL,           -- JSON{"," + _COUNTS},
        PRIMARY KEY (batch, kind, position)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS hits (
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
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS uses (
        document_id TEXT NOT NULL,
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        chunk_id TEXT NOT NULL,
        PRIMARY KEY (batch, kind, position, ordinal)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS uses_by_document ON uses (document_id)",
    "CREATE INDEX IF NOT EXISTS hits_by_document ON hits (document_id)",
    """CREATE TABLE IF NOT EXISTS feedback (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        at TEXT NOT NULL,
        "by" TEXT NOT NULL,
        verdict TEXT NOT NULL,           -- accepted | rejected | empty
        score REAL,
        note TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS feedback_by_output ON feedback (batch, kind, position)",
    """CREATE TABLE IF NOT EXISTS corrections (
        number INTEGER PRIMARY KEY,      -- of the feedback that it came with
        text TEXT NOT NULL,              -- the answer as it should be, or empty
        passages TEXT NOT NULL           -- JSON list: numbers of citations that hold the answer
    )""",
    """CREATE TABLE IF NOT EXISTS configurations (
        configuration TEXT PRIMARY KEY,
        settings TEXT NOT NULL           -- JSON
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS output_names (
        name TEXT PRIMARY KEY,           -- the id that whoever asked for it knows it by
        batch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        position INTEGER NOT NULL,
        "by" TEXT NOT NULL               -- who asked for it
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS answer_texts (
        text TEXT NOT NULL,              -- hash of a client and of an answer as it was sent to it
        batch INTEGER NOT NULL,
        PRIMARY KEY (text, batch)
    ) WITHOUT ROWID""",
    """CREATE VIEW IF NOT EXISTS latest_feedback AS
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
        FROM (SELECT DISTINCT batch, kind, position FROM feedback) f""",
    """CREATE VIEW outputs AS
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
            ON f.batch = i.batch AND f.kind = i.kind AND f.position = i.position""",
    """CREATE TABLE IF NOT EXISTS scores (
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
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS scores_waiting ON scores (due) WHERE state = 'waiting'",
    """CREATE TABLE IF NOT EXISTS drawn (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        batch INTEGER NOT NULL           -- batches up to this one were drawn from
    )""",
    """CREATE TABLE IF NOT EXISTS measuring_days (
        day TEXT PRIMARY KEY,            -- UTC
        cost REAL NOT NULL,
        scored INTEGER NOT NULL,
        failed INTEGER NOT NULL,         -- attempts that ended in an error
        reason TEXT NOT NULL,            -- of the last error
        reached REAL                     -- the daily budget that was used up
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS drifts (
        measure TEXT PRIMARY KEY,
        verdict TEXT NOT NULL,
        opened TEXT NOT NULL,
        text TEXT NOT NULL,              -- of the notice
        owed TEXT NOT NULL               -- JSON list of the addresses that have not got it
    ) WITHOUT ROWID""",
    """CREATE VIEW scored AS
        SELECT s.batch || '.' || s.position AS id, s.batch, b.at, s.measure, s.state, s.value,
            s.reason, s.judge, s.prompts, s.scored_at, s.attempts, i.model, b.snapshot,
            b.configuration, b.served, b.scope,
            coalesce(json_extract(b.request, '$.persona'), '') AS persona,
            coalesce(json_extract(i.details, '$.name'), '') AS name
        FROM scores s JOIN batches b USING (batch)
            JOIN items i ON i.batch = s.batch AND i.kind = s.kind AND i.position = s.position""",
)
"""Drafts and served answers with feedback, scores and drift."""

EARLIER = "earlier"
"""Kind of the rows of ``uses`` with the passages that earlier answers of a conversation used; the
ids are empty where there were none."""

_FOLLOWS = (
    f"batch IN (SELECT batch FROM uses WHERE kind = '{EARLIER}' AND document_id = ?) "  # noqa: S608
    # nobody knows what the earlier answers quoted
    "OR batch IN (SELECT b.batch FROM batches b WHERE instr(b.request, '\"asked_before\"') > 0 "
    f"AND NOT EXISTS (SELECT 1 FROM uses u WHERE u.batch = b.batch AND u.kind = '{EARLIER}'))"
)
_USED = (
    "((batch, kind, position) IN "  # noqa: S608
    f"(SELECT batch, kind, position FROM uses WHERE document_id = ?) OR {_FOLLOWS})"
)
_OF_SCOPE = "batch IN (SELECT batch FROM batches WHERE scope = ?)"
_OF_PERSON = 'batch IN (SELECT batch FROM output_names WHERE "by" = :name)'
_BY_PERSON = f'("by" = :name OR {_OF_PERSON})'
OUTPUTS_FORGET = (
    Forgets("items", _USED, _OF_SCOPE, counts="outputs"),
    Forgets(
        "corrections",
        f"number IN (SELECT number FROM feedback WHERE {_USED})",  # noqa: S608
        f"number IN (SELECT number FROM feedback WHERE {_OF_SCOPE})",  # noqa: S608
    ),
    Forgets("feedback", _USED, _OF_SCOPE),
    Forgets("output_names", _USED, _OF_SCOPE),
    Forgets("scores", _USED, _OF_SCOPE),
    Forgets("uses", _USED, _OF_SCOPE),
    Forgets("hits", "document_id = ?", _OF_SCOPE),
    # a served answer without its text: the question and the citations go too
    Forgets(
        "batches",
        "kind = 'answer' AND NOT EXISTS (SELECT 1 FROM items i WHERE i.batch = batches.batch)",
        "scope = ?",
    ),
    Forgets("hits", "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = hits.batch)"),
    Forgets("uses", "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = uses.batch)"),
    Forgets(
        "answer_texts",
        "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = answer_texts.batch)",
        "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = answer_texts.batch)",
    ),
    # a batch is what one person asked for, and goes whole
    Forgets(
        "corrections",
        person=f"number IN (SELECT number FROM feedback WHERE {_BY_PERSON})",  # noqa: S608
        counts="corrections",
    ),
    Forgets("feedback", person=_BY_PERSON, counts="feedback"),
    *(
        Forgets(table, person=_OF_PERSON)
        for table in ("scores", "uses", "hits", "items", "answer_texts")
    ),
    Forgets("batches", person=_OF_PERSON, counts="answers"),
    Forgets("output_names", person=_OF_PERSON),
)
