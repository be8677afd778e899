"""Every table that the program keeps, and what goes with a document, a scope or a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from ..core import list_own_additions


@dataclass(frozen=True, slots=True)
class ErasureRule:
    """Which rows of a table go with a document, a scope or a person; ``?`` is its name.

    Attributes:
        table: The table.
        document: Condition of the rows that go with a document; empty if none do.
        scope: Condition of the rows that go with a scope; empty if none do.
        person: Condition of the rows that go with a person; empty if none do. Here and in
            ``becomes``, ``:name`` is the person's name, ``:erased`` the hash that stands for it.
        counts: What these rows are in the counts of ``ragwright forget``; empty: not counted.
        becomes: What is set in such rows instead of deleting them; ``?`` as in the conditions.
        local: True for a table of SQLite files alone.
    """

    table: str
    document: str = ""
    scope: str = ""
    person: str = ""
    counts: str = ""
    becomes: str = ""
    local: bool = False


@dataclass(frozen=True, slots=True)
class AppendOnlyTable:
    """A table whose rows are added and then stay as they are: triggers refuse anything else.

    Conditions are SQL over ``NEW`` and ``OLD``, the row after and before a change.

    Attributes:
        table: The table.
        change: Condition of a change that is allowed.
        removal: Condition of a row that may be deleted.
    """

    table: str
    change: str
    removal: str


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of one subject.

    Attributes:
        name: Name of the subject; a schema of PostgreSQL ends with it.
        statements: Statements that make the tables; the first one makes the table that identifies
            files of this program.
        version: Schema version; files and schemas of another version are refused.
        local: Statements that make further tables, in SQLite files alone.
        damaged: Hint if a file is damaged: what to do, and what that loses.
        rebuild: Hint if a file is of another version; empty: move its folder away and ingest.
        forgets: What goes with a document, a scope or a person, in the order of deleting.
        appended: Tables whose rows never change.
    """

    name: str
    statements: Sequence[str]
    version: int
    local: Sequence[str] = ()
    damaged: str = ""
    rebuild: str = ""
    forgets: Sequence[ErasureRule] = ()
    appended: Sequence[AppendOnlyTable] = ()


ACCESS_STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS served_changes (
        change INTEGER PRIMARY KEY AUTOINCREMENT,
        number INTEGER NOT NULL,         -- of the configuration that is served from then on
        replaced INTEGER,
        action TEXT NOT NULL,            -- promote | back
        at TEXT NOT NULL,
        "by" TEXT NOT NULL,
        configuration TEXT NOT NULL,     -- hash
        run TEXT NOT NULL,
        reason TEXT NOT NULL,
        gate TEXT NOT NULL,              -- JSON
        baseline TEXT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS system_rounds (
        system TEXT PRIMARY KEY,         -- hash of the system under test, testset and rows
        round TEXT NOT NULL              -- keeps its replies apart from those of earlier runs
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS last_ingest (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        report TEXT NOT NULL             -- JSON
    )""",
)
"""Tables of this machine alone."""


ACCESS_FORGETS = (
    ErasureRule("last_ingest", "? != ''", local=True),  # it may name any document
    ErasureRule(
        "served_changes",
        person='"by" = :name',
        becomes='"by" = :erased',
        counts="promotions",
        local=True,
    ),
)

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
    """CREATE VIEW scored AS
        SELECT s.batch || '.' || s.position AS id, s.batch, b.at, s.measure, s.state, s.value,
            s.reason, s.judge, s.prompts, s.scored_at, s.attempts, i.model, b.snapshot,
            b.configuration, b.served, b.scope,
            coalesce(json_extract(b.request, '$.persona'), '') AS persona,
            coalesce(json_extract(i.details, '$.name'), '') AS name
        FROM scores s JOIN batches b USING (batch)
            JOIN items i ON i.batch = s.batch AND i.kind = s.kind AND i.position = s.position""",
)
"""Drafts and served answers with feedback and scores."""

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
_BATCH_OF_SCOPE = "batch IN (SELECT batch FROM batches WHERE scope = ?)"
_OF_PERSON = 'batch IN (SELECT batch FROM output_names WHERE "by" = :name)'
_BY_PERSON = f'("by" = :name OR {_OF_PERSON})'
OUTPUTS_FORGET = (
    ErasureRule("items", _USED, _BATCH_OF_SCOPE, counts="outputs"),
    ErasureRule(
        "corrections",
        f"number IN (SELECT number FROM feedback WHERE {_USED})",  # noqa: S608
        f"number IN (SELECT number FROM feedback WHERE {_BATCH_OF_SCOPE})",  # noqa: S608
    ),
    ErasureRule("feedback", _USED, _BATCH_OF_SCOPE),
    ErasureRule("output_names", _USED, _BATCH_OF_SCOPE),
    ErasureRule("scores", _USED, _BATCH_OF_SCOPE),
    ErasureRule("uses", _USED, _BATCH_OF_SCOPE),
    ErasureRule("hits", "document_id = ?", _BATCH_OF_SCOPE),
    # a served answer without its text: the question and the citations go too
    ErasureRule(
        "batches",
        "kind = 'answer' AND NOT EXISTS (SELECT 1 FROM items i WHERE i.batch = batches.batch)",
        "scope = ?",
    ),
    ErasureRule("hits", "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = hits.batch)"),
    ErasureRule("uses", "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = uses.batch)"),
    ErasureRule(
        "answer_texts",
        "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = answer_texts.batch)",
        "NOT EXISTS (SELECT 1 FROM batches b WHERE b.batch = answer_texts.batch)",
    ),
    # a batch is what one person asked for, and goes whole
    ErasureRule(
        "corrections",
        person=f"number IN (SELECT number FROM feedback WHERE {_BY_PERSON})",  # noqa: S608
        counts="corrections",
    ),
    ErasureRule("feedback", person=_BY_PERSON, counts="feedback"),
    *(
        ErasureRule(table, person=_OF_PERSON)
        for table in ("scores", "uses", "hits", "items", "answer_texts")
    ),
    ErasureRule("batches", person=_OF_PERSON, counts="answers"),
    ErasureRule("output_names", person=_OF_PERSON),
)

_RUNS = (
    """CREATE TABLE IF NOT EXISTS runs (
        run TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        manifest TEXT NOT NULL,
        hash TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- open | complete | stopped
        started REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS rows (
        run TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        row TEXT NOT NULL,
        state TEXT NOT NULL,
        body TEXT NOT NULL,
        written REAL NOT NULL,
        PRIMARY KEY (run, row)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS row_sources (
        source TEXT NOT NULL,
        run TEXT NOT NULL,
        row TEXT NOT NULL,
        PRIMARY KEY (source, run, row)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS names (
        run TEXT PRIMARY KEY,
        name TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS facts (
        run TEXT NOT NULL,
        fact TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (run, fact)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS runs_by_hash ON runs (kind, hash, started)",
)
"""Evaluations, studies and other runs: their rows, names and facts."""

_MADE_OF = "(run, row) IN (SELECT run, row FROM row_sources WHERE source = ?)"
_OF_SCOPE = "run IN (SELECT run FROM runs WHERE scope = ?)"
_RUNS_FORGET = (
    ErasureRule("rows", _MADE_OF, _OF_SCOPE, counts="rows"),
    ErasureRule("row_sources", _MADE_OF, _OF_SCOPE),
    ErasureRule("names", scope=_OF_SCOPE),
    ErasureRule("facts", scope=_OF_SCOPE),
    ErasureRule("runs", scope="scope = ?"),
)

_SPENDING = (
    """CREATE TABLE IF NOT EXISTS spending (
        day INTEGER PRIMARY KEY,         -- days since 1970-01-01, UTC, by the database's clock
        cost REAL NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS reserved (
        name TEXT PRIMARY KEY,
        day INTEGER NOT NULL,
        amount REAL NOT NULL
    ) WITHOUT ROWID""",
)
"""What was spent and is reserved, by day."""

_OWN = Tables(
    "ledger",
    (*_RUNS, *OUTPUT_STATEMENTS, *_SPENDING),
    9,
    local=ACCESS_STATEMENTS,
    damaged="restore it from a backup, or move it away: runs, outputs, feedback, what was spent, "
    "the history of jobs, keys of the server and promotions begin anew",
    forgets=(*_RUNS_FORGET, *OUTPUTS_FORGET, *ACCESS_FORGETS),
)
"""Tables of several rooms; a change of any table of the ledger raises the version here."""


@cache
def ledger_tables() -> Tables:
    """All that a project keeps in the ledger, with the tables of the parts of ragwright."""
    parts: list[Tables] = [part.load() for part in list_own_additions("tables")]
    return replace(
        _OWN,
        statements=(
            *_OWN.statements,
            *(statement for part in parts for statement in part.statements),
        ),
        local=(*_OWN.local, *(statement for part in parts for statement in part.local)),
        forgets=(*_OWN.forgets, *(rule for part in parts for rule in part.forgets)),
        appended=tuple(appended for part in parts for appended in part.appended),
    )


REPLY_TABLES = Tables(
    "replies",
    (
        """CREATE TABLE IF NOT EXISTS replies (
        key TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        lane TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- pending | done | spent (paid, never reused)
        body BLOB,
        created REAL NOT NULL,
        owner TEXT NOT NULL DEFAULT '',
        lease REAL NOT NULL DEFAULT 0,
        prompt_tokens INTEGER NOT NULL DEFAULT 0,
        completion_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        characters INTEGER NOT NULL DEFAULT 0,
        seconds REAL NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
        """CREATE TABLE IF NOT EXISTS reply_sources (
        source TEXT NOT NULL,
        key TEXT NOT NULL,
        PRIMARY KEY (source, key)
    ) WITHOUT ROWID""",
        "CREATE INDEX IF NOT EXISTS replies_by_age ON replies (created)",
        # covers facts and statistics: columns behind a large body are slow to read
        "CREATE INDEX IF NOT EXISTS replies_by_use ON replies (lane, state, key, kind, "
        "prompt_tokens, completion_tokens, cost, characters, seconds)",
    ),
    2,
    damaged="run: ragwright cache clear (the replies in it are lost: repeated calls are paid for "
    "again)",
    rebuild="run: ragwright cache clear",
)
"""Replies of models, and the documents that they were made from."""

STAMP_TABLES = Tables(
    "stamps",
    (
        """CREATE TABLE IF NOT EXISTS stamps (
    reading TEXT NOT NULL,
    path BLOB NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    documents TEXT NOT NULL,
    warnings TEXT NOT NULL,
    PRIMARY KEY (reading, path)
) WITHOUT ROWID""",
    ),
    2,
)
"""Sizes and times of files when they were last read."""
