"""A statement that may be sent to a database: one SELECT in a small, unambiguous dialect.

This is the second line of defence, and gives clear messages. The first is the
connection: read-only, one statement by protocol, limited in time, rows and rights. Syntax that
databases tokenise differently (comments, dollar quotes, Unicode escapes, backticks) is refused, so
that nothing can bypass the list of functions below.
"""

from __future__ import annotations

import re

from ..core import StatementError, late_pattern

LONGEST = 20_000
"""Most characters of a statement."""

_TOKEN = late_pattern(
    r"(?P<space>\s+)"
    r"|(?P<refused>--|/\*|\*/|`|[uU]&[\"']|\$(?:[^\W\d]\w*)?\$|\x00)"
    r"|(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*\")"
    r"|(?P<word>[^\W\d][\w$]*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<open>['\"])"
    r"|(?P<mark>.)",
    re.DOTALL,
)

_FUNCTIONS = late_pattern(
    r"(?:pg_read_|pg_ls_|pg_stat_file|pg_file_|pg_current_logfile|pg_terminate_|pg_cancel_"
    r"|pg_reload_|pg_rotate_|pg_promote|pg_create_|pg_drop_|pg_switch_|pg_export_|pg_logical_"
    r"|pg_notify|pg_advisory|pg_try_advisory|pg_backup|pg_start_|pg_stop_|pg_wal_|pg_replication"
    r"|lo_|loread|lowrite|dblink|set_config|nextval|setval|ts_stat|ts_rewrite"
    r"|query_to_xml|cursor_to_xml|table_to_xml|schema_to_xml|database_to_xml"
    r"|load_extension|readfile|writefile|fts3_tokenizer|edit$)"
)
"""Functions that touch files, sessions or other servers, change state, or run text as SQL."""

_SECRET = {"pg_authid", "pg_shadow", "pg_user_mapping", "pg_user_mappings", "pg_hba_file_rules"}


def checked_statement(text: str) -> str:
    """The statement without its last semicolon, if it is allowed.

    Raises:
        StatementError: It is empty or too long, not one statement, does not begin with SELECT,
            WITH or VALUES, holds a comment or a form of quoting that is refused, or names a
            function that reads files, changes state or runs text as SQL.
    """
    statement = text.strip()
    if len(statement) > LONGEST:
        raise _refused(f"it has {len(statement)} characters; at most {LONGEST} are allowed")
    words: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(statement):
        kind, token = str(match.lastgroup), match[0]
        if kind == "refused":
            raise _refused(f"it contains {token!r}: write it without comments and special quotes")
        if kind == "open":
            raise _refused(f"a quote {token} is not closed")
        if kind != "space":
            words.append((kind, token))
    while words and words[-1] == ("mark", ";"):
        words.pop()
        statement = statement.rstrip()[:-1].rstrip()
    if not words:
        raise _refused("it is empty")
    if ("mark", ";") in words:
        raise _refused("it contains more than one statement")
    first = next((word for _, word in words if word != "("), "")
    if first.lower() not in {"select", "with", "values"}:
        raise _refused(f"it begins with {first[:40]!r}, not with SELECT")
    _check_names(words)
    return statement


def _check_names(words: list[tuple[str, str]]) -> None:
    """Refuse functions and tables by name, quoted or not."""
    for at, (kind, token) in enumerate(words):
        if kind not in {"word", "quoted"}:
            continue
        name = token.strip('"').lower()
        called = words[at + 1 : at + 2] == [("mark", "(")]
        if name in _SECRET or (called and _FUNCTIONS.match(name)):
            raise _refused(f"it uses {name}")


def _refused(why: str) -> StatementError:
    return StatementError(
        f"the statement was not run: {why}", hint="write one SELECT that reads tables of the schema"
    )
