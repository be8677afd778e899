"""Backups while a project is used, and what a restore makes of them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sqlite3
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from served import served
from small_project import CODES, MANUAL, MakeProject

from ragwright import Workbench
from ragwright.ledger import file_switch
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "How often must the brake fluid be changed?"
ROWS = (
    '{"user_input": "How often must the brake fluid be changed?", "reference": "every two years"}\n'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    for name in ("personas/help.yaml", "prompts/own.yaml", "testsets/mine.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(ROWS if name.endswith("jsonl") else "", "utf-8")
    (folder / "personas/help.yaml").write_text("name: help\naudience: people\n", "utf-8")
    (folder / "prompts/own.yaml").write_text("parts: {no_extraneous: Be brief.}\n", "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
        bench.ask(QUESTION)
    return folder


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of a SQLite file."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = [name for (name,) in connection.execute(query)]
        return {n: sorted(connection.execute(f'SELECT * FROM "{n}"'), key=repr) for n in names}


def databases(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in (folder / ".ragwright/data").glob("*.sqlite"))


def files(folder: Path) -> dict[str, bytes]:
    """Files of the project beside its databases, caches, locks and sources."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        within = name.startswith((".ragwright/", "docs/")) and "/served/" not in name
        if path.is_file() and not within:
            found[name] = path.read_bytes()
    return found


def said(folder: Path) -> tuple[Any, ...]:
    """Documents, hits and answer of a question, runs and outputs."""
    with Workbench.open(folder) as bench:
        documents = list(bench.documents())
        hits = [(h.chunk_id, h.text, h.score) for h in bench.retrieve(QUESTION).hits]
        return documents, hits, bench.ask(QUESTION).text, list(bench.project.runs.list())


def test_a_backup_of_a_served_project_restores_all_of_it(project: Path, tmp_path: Path) -> None:
    secret = ServeKeys(ProjectFolder(project)).add(ServeKey("ann"))
    ragwright(project, "eval", "--testset", "testsets/mine.jsonl", "--measures", "ExactMatch", "-q")
    archive, other = tmp_path / "all.zip", tmp_path / "other"
    with served(project) as running:
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        assert running.client(secret).post("/v1/chat/completions", json=asked).status_code == 200
        done = json.loads(ragwright(project, "backup", str(archive), "--json").stdout)
        before = {name: rows(project / name) for name in databases(project)}
    assert archive.stat().st_mode & 0o777 == 0o600
    assert done["left_out"]["docs"] == "a source: --sources"
    assert done["files"] > 5
    ragwright(tmp_path, "restore", str(archive), "-C", str(other))
    assert databases(other) == databases(project)
    for name, tables in before.items():
        restored = rows(other / name)
        if name.endswith("ledger.sqlite"):  # to restore is an event as well
            assert restored["audit_events"].pop()[2:8:6] == ("changed",)
            restored.pop("sqlite_sequence"), tables.pop("sqlite_sequence")
        assert restored == tables
    assert files(other) == files(project)
    (other / "docs").mkdir()
    for name, text in (("service.md", MANUAL), ("codes.md", CODES)):
        (other / "docs" / name).write_text(text, "utf-8")
    assert said(other) == said(project)
    with served(other) as running:
        assert running.client(secret).get("/v1/models").status_code == 200
        assert running.client("rw_other").get("/v1/models").status_code == 401


@pytest.mark.slow
def test_a_backup_during_requests_and_an_ingest_is_of_one_moment(
    project: Path, tmp_path: Path
) -> None:
    for number in range(60):
        (project / f"docs/part{number}.md").write_text(f"# Part {number}\n\n{MANUAL}\n", "utf-8")
    stop = threading.Event()

    def ingest() -> None:
        while not stop.is_set():
            with Workbench.open(project) as bench:
                bench.ingest()
            for number in range(0, 60, 7):
                text = f"# Part {number}\n\n{MANUAL}\nSeen at {time.time()}.\n"
                (project / f"docs/part{number}.md").write_text(text, "utf-8")

    with served(project) as running:

        def ask() -> None:
            while not stop.is_set():
                running.ask(QUESTION)

        threads = [threading.Thread(target=work) for work in (ingest, ask)]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                time.sleep(0.2)
                ragwright(project, "backup", str(tmp_path / f"{number}.zip"), "-q")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    final = rows(project / ".ragwright/data/ledger.sqlite")
    for number in range(3):
        folder = tmp_path / f"restored{number}"
        ragwright(tmp_path, "restore", str(tmp_path / f"{number}.zip"), "-C", str(folder), "-q")
        ledger = rows(folder / ".ragwright/data/ledger.sqlite")
        store = rows(folder / ".ragwright/data/store.sqlite")
        for table in ("batches", "items"):
            assert {*map(repr, ledger[table])} <= {*map(repr, final[table])}
        entries = {row[0] for row in store["entries"]} | {row[0] for row in store["retired"]}
        assert {row[1] for row in store["chunks"]} <= entries
        with Workbench.open(folder) as bench:
            assert bench.retrieve(QUESTION).hits
            assert {document.id for document in bench.documents()} >= {"docs/codes.md"}


def test_tables_of_lance_are_held_while_they_are_written(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("store: {kind: lance}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    ragwright(folder, "backup", "all.zip", "--sources")
    ragwright(folder, "restore", "all.zip", "-C", str(tmp_path / "other"))
    assert said(tmp_path / "other")[:2] == said(folder)[:2]


def altered(source: Path, target: Path, change: Any) -> Path:
    """A copy of an archive whose members went through ``change(name, data)``."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            for name, data in change(info.filename, old.read(info)):
                new.writestr(name, data)
        new.comment = old.comment
    return target


def flipped(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, data[:-1] + bytes([data[-1] ^ 1]) if name.endswith("store.sqlite") else data


def traversing(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    new = "../../evil.yaml"
    if name == "manifest.json":
        data = data.replace(b'"ragwright.yaml"', f'"{new}"'.encode())
    yield name.replace("project/ragwright.yaml", f"project/{new}"), data


def further(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, data
    if name == "manifest.json":
        yield "project/more.yaml", b""


def newer(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    if name == "manifest.json":
        body = json.loads(data)
        body["versions"][".ragwright/data/ledger.sqlite"] = 99
        data = json.dumps(body).encode()
    yield name, data


def linked(name: str, data: bytes) -> Iterator[tuple[Any, bytes]]:
    info = zipfile.ZipInfo(name)
    if name.endswith("ragwright.yaml"):
        info.external_attr = 0o120777 << 16
    yield info, data


def described(**changes: Any) -> Any:
    """Archives whose manifest says something else."""

    def change(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        if name == "manifest.json":
            data = json.dumps(json.loads(data) | changes).encode()
        yield name, data

    return change


def nested(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, b"[" * 200_000 if name == "manifest.json" else data


def packed(name: str, data: bytes) -> Iterator[tuple[Any, bytes]]:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_LZMA
    yield info, data


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (nested, "manifest cannot be read"),
        (packed, "packed in another way"),
        (described(versions=None), "manifest cannot be read"),
        (described(versions={"a": "x"}), "manifest cannot be read"),
        (described(left_out=[1]), "manifest cannot be read"),
        (described(at=5), "manifest cannot be read"),
        (described(format=float("inf")), "manifest cannot be read"),
        (described(files={"a": {"size": 10**15, "sha256": "0" * 64}}), "MB free"),
        (flipped, "has another content"),
        (traversing, "leads out of the folder"),
        (further, "not those of its manifest"),
        (newer, "schema version 99"),
        (linked, "leads out of the folder"),
    ],
)
def test_bad_archives_change_nothing(
    project: Path, tmp_path: Path, change: Any, fault: str
) -> None:
    ragwright(project, "backup", str(tmp_path / "good.zip"))
    bad = altered(tmp_path / "good.zip", tmp_path / "bad.zip", change)
    done = ragwright(tmp_path, "restore", str(bad), "-C", str(tmp_path / "other"), code=1)
    assert fault in done.stderr
    assert not list((tmp_path / "other").rglob("*"))
    assert not (tmp_path / "evil.yaml").exists()


def test_foreign_and_cut_archives_are_refused(project: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("a.txt", "a")
    done = ragwright(tmp_path, "restore", str(foreign), "-C", "new", code=1)
    assert "not a backup of ragwright" in done.stderr
    ragwright(project, "backup", str(tmp_path / "good.zip"))
    cut = tmp_path / "cut.zip"
    cut.write_bytes((tmp_path / "good.zip").read_bytes()[:-3000])
    assert "damaged" in ragwright(tmp_path, "restore", str(cut), "-C", "new", code=1).stderr
    missing = ragwright(tmp_path, "restore", "none.zip", "-C", "new", code=1)
    assert "no such file" in missing.stderr


def test_a_restore_replaces_only_on_request_and_keeps_what_was_there(
    project: Path, tmp_path: Path
) -> None:
    archive = str(tmp_path / "all.zip")
    ragwright(project, "backup", archive)
    again = ragwright(project, "backup", archive, code=1)
    assert "such a file already" in again.stderr
    refused = ragwright(tmp_path, "restore", archive, "-C", str(project), code=1)
    assert "--replace" in refused.stderr
    expected = said(project)
    (project / "ragwright.yaml").write_text("sources: []\n", "utf-8")
    with Workbench.open(project) as bench:
        bench.forget("docs/service.md")
    ragwright(tmp_path, "restore", archive, "-C", str(project), "--replace")
    assert said(project) == expected
    [before] = project.glob("before-restore-*")
    assert (before / "ragwright.yaml").read_text("utf-8") == "sources: []\n"
    assert (project / "docs/service.md").exists(), "what the archive does not hold stays"


def test_a_restore_merges_folders_and_refuses_a_project_in_use(tmp_path: Path) -> None:
    store = "store: {path: index/store.sqlite}\n"
    folder = MakeProject(tmp_path)(store)
    (folder / "ragwright.yaml").write_text(f"sources: [docs/service.md]\n{store}", "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
        bench.retrieve(QUESTION)
        ragwright(folder, "backup", str(tmp_path / "all.zip"))
        archive = str(tmp_path / "all.zip")
        refused = ragwright(folder, "restore", archive, "--replace", code=1)
        assert "another process uses this project" in refused.stderr
        assert not list(folder.glob("before-restore-*"))
    with zipfile.ZipFile(archive) as held:
        names = held.namelist()
    assert "project/index/store.sqlite" in names
    assert not [name for name in names if name.endswith(("-wal", "-shm"))]
    (folder / "docs/later.md").write_text("# Later\n", "utf-8")
    ragwright(folder, "restore", archive, "--replace")
    assert {p.name for p in (folder / "docs").iterdir()} >= {"service.md", "codes.md", "later.md"}
    assert (folder / "index/store.sqlite").stat().st_mode & 0o777 == 0o600
    ragwright(folder, "backup", str(tmp_path / "next.zip"))
    with zipfile.ZipFile(tmp_path / "next.zip") as held:
        assert not [name for name in held.namelist() if "before-restore-" in name]


def test_forget_reaches_what_a_killed_backup_left(project: Path) -> None:
    left = project / ".ragwright/data/.backup-killed"
    left.mkdir()
    (left / "database").write_text("brake fluid", "utf-8")
    with Workbench.open(project) as bench:
        bench.forget("docs/service.md")
    assert not left.exists()


def test_a_restore_that_fails_half_way_changes_nothing(project: Path, tmp_path: Path) -> None:
    archive = str(tmp_path / "all.zip")
    ragwright(project, "backup", archive)
    (project / "testsets/mine.jsonl").unlink()
    (project / "testsets").rmdir()
    (project / "testsets").write_text("not a folder", "utf-8")
    (project / "ragwright.yaml").write_text("sources: [docs/] # later\n", "utf-8")
    before = said(project)
    ragwright(project, "restore", archive, "--replace", code=1)
    assert said(project) == before
    assert (project / "ragwright.yaml").read_text("utf-8").endswith("# later\n")
    assert (project / "testsets").read_text("utf-8") == "not a folder"
    assert not list(project.glob("before-restore-*"))


class KilledAt:
    """Kills this process before it moves or removes a file, or clears a folder."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        own = any(".restore" in str(argument) for argument in arguments)
        if own and event in ("os.rename", "os.remove", "shutil.rmtree"):
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


def killed(folder: Path, archive: str, step: int) -> bool:
    """Restore in a copy of this process that is killed at a step; False if it has ended before."""
    child = os.fork()
    if not child:
        sys.addaudithook(KilledAt(step))
        ragwright(folder, "restore", archive, "--replace", "-q")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def small_state(folder: Path) -> dict[str, Any]:
    """What a project is, without what every command may write."""
    with Workbench.open(folder) as bench:
        documents = sorted(document.id for document in bench.documents())
    kept = {
        name: content
        for name, content in files(folder).items()
        if not name.startswith("before-restore-")
    }
    return {"documents": documents, **kept}


@pytest.mark.slow
def test_a_killed_restore_is_finished_or_undone_by_the_next_command(tmp_path: Path) -> None:
    """At each of its steps: what follows is the project as it was, or as the backup has it."""
    folder = MakeProject(tmp_path)()
    (folder / "testsets").mkdir()
    (folder / "testsets/mine.jsonl").write_text(ROWS, "utf-8")
    ragwright(folder, "ingest", "-q")
    archive = str(tmp_path / "all.zip")
    ragwright(folder, "backup", archive)
    backed_up = small_state(folder)
    (folder / "ragwright.yaml").write_text("sources: [docs/] # later\n", "utf-8")
    (folder / "docs/later.md").write_text("# Later\n", "utf-8")
    ragwright(folder, "ingest", "-q")
    present = small_state(folder)
    assert present != backed_up
    spare, ends = tmp_path / "spare", []
    shutil.copytree(folder, spare)
    for step in itertools.count():
        shutil.rmtree(folder)
        shutil.copytree(spare, folder)
        unfinished = killed(folder, archive, step)
        state = small_state(folder)
        assert not (folder / ".restore").exists(), step
        assert state in (present, backed_up), step
        ends.append(state == backed_up)
        if not unfinished:
            break
    assert ends == sorted(ends), "as it was until the journal is there, the backup from then on"
    assert ends.count(False) == 1, ends
    assert ends.count(True) > 6, ends


def test_commands_wait_for_a_restore_that_is_going_on(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with file_switch(folder) as switch:
        ragwright(folder, "ingest", "-q")  # the project is as it was while files are unpacked
        assert switch.files.is_dir()
        (folder / ".restore/journal.json").write_text("{}", "utf-8")
        refused = ragwright(folder, "doctor", code=1).stderr
        assert "a restore is replacing the files of this project" in refused
        (folder / ".restore/journal.json").unlink()
    assert not (folder / ".restore").exists()
