"""The texts of a project with records: nine rows of a database, and what is done with them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from story_tools import read_json, write_files

from ragwright.testing import ScriptedServer

SOURCE = """\
source: sqlite:///shop.db
query: select id, sender, channel, body from messages
key: id
text: body
keep: [channel]
require: [sender]
"""
CLEANING = """\
steps:
  - odd unicode: ['\\u200b']
  - links: ['https?://\\S+']
  - max_repeat: 3
  - strip
"""
TAGS = """\
tags:
  donation ask: '(?i)\\bdonate\\b|\\bgive\\b'
  volunteer ask: '(?i)\\bvolunteer\\b'
  urgent tone: '(?i)\\btonight\\b'
  grateful tone: '(?i)\\bthank you\\b'
  angry tone: '(?i)\\bdisgrace\\b'
  health care hook:
    pattern: '(?i)\\bclinics?\\b'
    definition: Access to doctors and hospitals.
  schools hook: '(?i)\\bschools\\b'
"""
RULES = """\
length_groups: {short: 160, medium: 400, long: null}
refine:
  - if: {ask_type: donation, text: '(?i)\\ba month\\b'}
    set: {fundraising_type: monthly}
  - if: {ask_type: volunteer, topic: schools}
    set: {ask_type: mentoring}
contradictions:
  - {name: angry thanks, tags: [angry tone, grateful tone]}
"""
ROLLUPS = """\
client: {column: sender, names: {Jane Doe: ["DOE, JANE", Jane for Congress], Rosa Lima: []}}
biographies: biographies.csv
"""
FORMAT = """\
prompt_variables: [length, ask_type, client, topic, tone, text]
prompt_structure: "A %s %s text message from %s about %s written with an emphasis on %s:\\n\\n%s"
"""
LONG = ("schools matter " * 80)[:1098] + "."
ROWS = (
    (1, "DOE, JANE", "sms", "Please donate $5 tonight!!!!! Clinics need you https://x.example/1"),
    (2, "Jane for Congress", "mail", "Volun\u200bteer for our clinics and schools."),
    (3, "Jane Doe", "sms", "Thank you. This is a disgrace."),
    (4, "Rosa Lima", "sms", "Please donate $5 tonight!!!!!!!! Clinics need you https://x.example/"),
    (5, "rosa  lima", "sms", "Give $10 a month for schools."),
    (6, "Tom Ash", "mail", f"{LONG}."),
    (7, "Tom Ash", "mail", LONG),
    (8, "Tom Ash", "sms", "Hello friends."),
    (9, None, "sms", "Nobody has sent this."),
)


def execute(folder: Path, statement: str, *rows: tuple[object, ...]) -> None:
    """Run a statement on the database of a project, once for each row."""
    with closing(sqlite3.connect(folder / "shop.db")) as made, made:
        made.executemany(statement, rows or [()])


def with_vectors(server: ScriptedServer) -> str:
    model = f"models: {{scripted: {{base: '{server.url}'}}}}"
    return f"{model}\nembed: {{model: 'scripted:words', dimensions: 64}}\n"


def make_desk(folder: Path, server: ScriptedServer) -> Path:
    """Nine rows of a database, refreshed; ``first.json`` is what the refresh printed."""
    files = {"source": SOURCE, "cleaning": CLEANING, "tags": TAGS, "rules": RULES}
    files |= {"rollups": ROLLUPS, "text_formats/message": FORMAT}
    write_files(folder / "records", {f"{name}.yaml": text for name, text in files.items()})
    lives = "name,biography\nJane Doe,Jane Doe is a nurse.\n"
    write_files(folder, {"records/biographies.csv": lives, "ragwright.yaml": with_vectors(server)})
    execute(folder, "create table messages (id integer primary key, sender, channel, body)")
    execute(folder, "insert into messages values (?, ?, ?, ?)", *ROWS)
    first = read_json(folder, "records", "refresh")
    return write_files(folder, {"first.json": json.dumps(first)})
