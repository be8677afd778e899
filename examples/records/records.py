"""From a table in PostgreSQL to drafted messages, and a job that says so; see README.md."""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import shlex
import shutil
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import sqlalchemy
from make_table import make_table

from ragwright.app import main as command_line
from ragwright.project import init_project
from ragwright.testing import ScriptedServer, ServerRequest

HERE = Path(__file__).parent
DATABASE, NOTICES = "RECORDS_DATABASE", "RECORDS_NOTICES"
BANNER = (
    "*" * 79 + "\n"
    "SCRIPTED REPLIES: no model was named, so a server on this machine stands for three\n"
    "of them. What it writes means nothing. Tables, searches, prompts, checks and outputs are\n"
    "real, and the same commands ask real models: --model openai:gpt-4o-mini\n" + "*" * 79
)


SENTENCES = (
    "The kettle in our office has heard more plans than the town hall.",
    "Ask the woman at the corner shop what a month costs; she keeps the receipts.",
    "We counted the lit windows on Canal Street, and there are fewer than last year.",
    "My grandfather laid the bricks of a house that his grandchildren cannot pay for.",
    "Nobody ever moved away because the neighbours were too kind.",
    "A roof is where homework gets done, and where soup gets cold while people argue.",
    "On Tuesday it rained into three kitchens that I know of, and I know few kitchens.",
    "The map on our wall has pins in it, one for every door that opened.",
    "Some letters come with a window in the envelope, and everybody knows what they say.",
    "You cannot put a street into a speech, but you can walk it with us.",
    "There is a bench by the river where two of our volunteers met, and now there are three.",
    "Promises are cheap in spring; we are asking what they cost in winter.",
    "The last bus leaves before the last shift ends, so people learn to walk in the dark.",
    "I keep a list of first names, and it is longer than the list of our donors.",
    "It was quiet at the meeting until somebody said the number out loud.",
    "What we have is an old van, a good lawyer, and the habit of turning up.",
)
"""What the scripted models have to say; they know of nothing else."""


def scripted(request: ServerRequest) -> str:
    """A reply in the right form: as many texts as asked for, one too long, one a copy."""
    turns = request.body["messages"]
    asked = str(turns[-1]["content"])
    drawn = random.Random(zlib.crc32(json.dumps(request.body, sort_keys=True).encode()))
    count = re.search(r"Write (\d+) such texts", asked)
    if count is None and "must be long" in asked:
        return " ".join(drawn.sample(SENTENCES, 7))
    texts = drawn.sample(SENTENCES, int(count[1]) if count else 1)
    if "Mind the length" in asked or count is None:
        return texts[0]
    texts[0] = " ".join(drawn.sample(SENTENCES, 4))
    if "brief" in request.body["model"]:
        return "\n".join(f"{at}. {min(SENTENCES, key=len)} {at}" for at in range(len(texts)))
    if "careless" in request.body["model"]:
        shown = [str(turn["content"]) for turn in turns if turn["role"] == "assistant"]
        texts[-1] = min(shown, key=len)
    return "Here you are:\n\n" + "\n".join(f"{at}. {text}" for at, text in enumerate(texts, 1))


class Story:
    """Commands as a person would type them, in one project.

    Args:
        folder: The project's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, line: str, *, shown: bool = True) -> str:
        """What a command prints; it must succeed (in this process, to save its start)."""
        print(f"\n$ ragwright {line}")
        sys.argv = ["ragwright", *shlex.split(line)]
        printed = io.StringIO()
        with chdir(self._folder), redirect_stdout(printed):
            try:
                command_line()
            except SystemExit as end:
                if end.code:
                    sys.exit(f"that failed: {line}")
        text = printed.getvalue()
        if shown:
            print(text.rstrip())
        return text

    def refresh(self) -> dict[str, Any]:
        """Counts of a refresh, table by table."""
        report: dict[str, Any] = json.loads(self.run("records refresh --json", shown=False))
        for table in ("bronze", "silver", "gold", "index"):
            counts = ", ".join(
                f"{count:,} {name}" for name, count in report[table].items() if name != "failures"
            )
            print(f"{table}: {counts}")
        return report


@contextmanager
def casting(models: list[str], folder: Path) -> Iterator[None]:
    """Write models into the project: those named, or three scripted ones, said loudly."""
    if models:
        _write_models(folder, models)
        yield
        return
    print(BANNER)
    with ScriptedServer(scripted, record=False) as server:
        names = [f"scripted:{name}" for name in ("careful", "careless", "brief")]
        _write_models(folder, names, f"models:\n  scripted: {{base: {server.url}}}\n")
        yield


def _write_models(folder: Path, models: list[str], more: str = "") -> None:
    file = folder / "ragwright.yaml"
    before = file.read_text("utf-8")
    after = before.replace("  draft:\n", f"  draft:\n    models: {json.dumps(models)}\n", 1)
    assert after != before
    file.write_text(f"{after}{more}", "utf-8")


@contextmanager
def noticeboard() -> Iterator[list[dict[str, Any]]]:
    """Notices that come to a web hook on this machine; empty where an own address is set."""
    notices: list[dict[str, Any]] = []
    if os.environ.get(NOTICES):
        yield notices
        return

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notices.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on the screen."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    os.environ[NOTICES] = f"json://127.0.0.1:{server.server_port}/"
    try:
        yield notices
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        del os.environ[NOTICES]


def project(folder: Path) -> None:
    """The template's files, and over them those that know of the database and of the jobs."""
    init_project(folder, template="records")
    shutil.copytree(HERE / "project", folder, dirs_exist_ok=True)
    (folder / "records" / "messages.csv").unlink()


def change_a_row(address: str) -> None:
    """Somebody corrects a message in the database."""
    engine = sqlalchemy.create_engine(address)
    text = "Rent is up again on Canal Street. Please give $12 before midnight."
    with engine.begin() as connection:
        statement = "update messages set body = :text where message_id = 7"
        connection.execute(sqlalchemy.text(statement), {"text": text})
    engine.dispose()


def change_a_name(folder: Path) -> None:
    """Somebody corrects the name of a client in rollups.yaml and biographies.csv."""
    for name in ("rollups.yaml", "biographies.csv"):
        file = folder / "records" / name
        before = file.read_text("utf-8")
        after = before.replace("Sam Okafor: [", "Samuel Okafor: [Sam Okafor, ")
        after = after.replace("\nSam Okafor,", "\nSamuel Okafor,")
        assert after != before
        file.write_text(after, "utf-8")


def change_a_tag(folder: Path) -> None:
    """Somebody adds one word to one line of tags.yaml."""
    file = folder / "records" / "tags.yaml"
    before = file.read_text("utf-8")
    after = before.replace("schools hook: '(?i)", "schools hook: '(?i)children|")
    assert after != before
    file.write_text(after, "utf-8")


def tables(story: Story, folder: Path, address: str) -> None:
    """Rows to bronze, silver and gold: once, again, and after two changes."""
    print("\n# What the declarations do to the rows")
    checked = story.run("records check --rows 2000", shown=False)
    print("\n".join(checked.splitlines()[:1]))
    print("\n# Refresh, and refresh again")
    story.refresh()
    story.refresh()
    print("\n# One row changes in the database")
    change_a_row(address)
    story.refresh()
    print("\n# One tag changes: cleaning does not run again, nor do the other tags")
    change_a_tag(folder)
    story.refresh()
    print("\n# One client is renamed in rollups.yaml: only gold changes")
    change_a_name(folder)
    story.refresh()
    story.run("records history")
    story.run("records show gold --key 7")


def texts(story: Story, folder: Path) -> None:
    """Drafts of several models, kept as outputs, and the models side by side."""
    print("\n# Short texts: one call for all of them, a random choice of examples")
    story.run(
        'draft --client "maya delgado" --ask donation --topic housing --topic "health care" '
        "--tone hopeful --length short -n 3"
    )
    print("\n# Long texts: a call for each, from examples that are as unlike as can be")
    story.run(
        'draft --client "Okafor for Council" --ask donation --topic housing --length long -n 2 '
        '--bio --headline "Rents rise for the third year"'
    )
    print("\n# What was written, and what was asked for it, is kept")
    story.run("outputs list --limit 4")
    story.run("outputs export -o outputs.jsonl")
    print("\n# The models side by side")
    print(compared(folder / "outputs.jsonl"))


def compared(file: Path) -> str:
    """A table of the exported texts: what each model wrote, and what was marked."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    lines = [f"{'model':22}{'texts':>7}{'characters':>12}{'wrong length':>14}{'near copies':>13}"]
    by_model: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_model.setdefault(row["metadata"]["model"], []).append(row)
    for model, some in by_model.items():
        characters = sum(len(row["response"]) for row in some) / len(some)
        marks = [
            [mark.partition(":")[0] for mark in row["metadata"].get("marks", ())] for row in some
        ]
        wrong = sum("too long" in flags or "too short" in flags for flags in marks)
        copies = sum(any(mark.startswith("near copy") for mark in flags) for flags in marks)
        lines.append(f"{model:22}{len(some):7}{characters:12.0f}{wrong:14}{copies:13}")
    return "\n".join(lines)


def jobs(story: Story, notices: list[dict[str, Any]]) -> None:
    """The job that runs on weekdays, and the one that drafts, by hand this time."""
    print("\n# The job, and the notice of it")
    story.run("job run refresh")
    story.run("job run generate --flag refresh")
    story.run("job history")
    story.run("outputs list --limit 3")
    for notice in notices:
        print(f"\nnotice: {notice['title']}\n{notice['message'].rstrip()}")


def main() -> None:
    """The whole way, by one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", default=[], help="writes; repeat for more")
    parser.add_argument("--folder", type=Path, default=Path("records-example"))
    parser.add_argument("--rows", type=int, default=3000, help="invented messages, such as 80000")
    parser.add_argument("--seed", type=int, default=1, help="of the invented messages")
    asked = parser.parse_args()
    address = os.environ.get(DATABASE, "")
    if not address:
        sys.exit(f"export {DATABASE}=postgresql+psycopg://…   (an empty database of yours)")
    make_table(address, asked.rows, asked.seed)
    project(asked.folder)
    with casting(asked.model, asked.folder), noticeboard() as notices:
        story = Story(asked.folder)
        tables(story, asked.folder, address)
        texts(story, asked.folder)
        jobs(story, notices)


if __name__ == "__main__":
    main()
