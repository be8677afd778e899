"""`forget`, `cache`, `backup`, `log` and `job`, as a person or a service manager calls them."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from command_line import ragwright
from served import Running, served
from small_project import MakeProject
from story_tools import lacking, read_json, run, write_files, write_rows
from waiting import wait_until

from ragwright.core import StoreDamagedError
from ragwright.jobs import JobRunner, Jobs, check_backup
from ragwright.ledger import WorkLock
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import ScriptedServer

QUESTION = "How often must the brake fluid be changed?"
ASKED = {"messages": [{"role": "user", "content": QUESTION}]}
SOURCE = "docs/service.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    run(folder, "ingest -q")
    return folder


def key(folder: Path, name: str, **rights: Any) -> str:
    return ServeKeys(ProjectFolder(folder)).add(ServeKey(name, **rights))


# -- forget, cache and backup ----------------------------------------------------------------


def test_replies_are_shown_cleared_and_forgotten_with_their_document(project: Path) -> None:
    with ScriptedServer("Every two years [1].") as server:
        run(project, f"ask --set answer.model={server.url}#m", QUESTION)
    [row] = read_json(project, "cache show")["replies"]
    assert (row["kind"], row["replies"]) == ("Chat", 1)
    done = ragwright(project, "forget", SOURCE, "--json")
    assert (json.loads(done.stdout)["documents"], json.loads(done.stdout)["replies"]) == (1, 1)
    assert "adds it again" in ragwright(project, "forget", "docs/codes.md").stderr
    again = ragwright(project, "forget", SOURCE, code=1)
    assert (SOURCE in again.stderr, again.stdout) == (True, ""), "no counts of nothing"
    run(project, "cache clear")
    assert read_json(project, "cache show")["replies"] == []


def holding(folder: Path, text: str) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]


def signed_in(running: Running, secret: str) -> httpx2.Client:
    """A browser in which somebody signed in with a key."""
    browser = running.client()
    browser.headers["accept"] = "text/html"
    assert browser.post("/login", data={"key": secret}).status_code == 303
    return browser


def test_a_person_is_erased_while_the_server_runs_and_the_log_keeps_the_facts(
    project: Path,
) -> None:
    brakes = "How often must the QXBRAKE fluid be changed?"
    secret, other = key(project, "ann.example"), key(project, "ben")
    with served(project, "serve.audit.questions=true") as running:
        ann, ben = signed_in(running, secret), running.client(other)
        assert ann.post("/", data={"q": brakes}).status_code == 200
        assert ben.post("/", data={"q": "What does APP_w304 mean?"}).status_code == 200
        body = {"messages": [{"role": "user", "content": brakes}]}
        reply = running.client(secret).post("/v1/chat/completions", json=body)
        rated = {"id": reply.json()["id"], "note": "QXNOTE: it depends on the country"}
        rated["correction"] = "Every QXNOTE years."
        assert ann.post("/v1/feedback", json=rated).status_code == 200
        ragwright(project, "review", "--feedback", "--by", "ann.example", typed="a\nq\n")
        assert holding(project / "testsets", "QXNOTE")

        listed = read_json(project, "forget --person ann.example --dry-run")
        assert listed["dry_run"]
        counted = ("answers", "corrections", "keys", "feedback", "feedback rows")
        assert [listed[fact] for fact in counted] == [2, 1, 1, 1, 1]
        assert ann.get("/sources").status_code == 200, "nothing was changed"
        text = run(project, "forget --person ann.example")
        assert re.search(r"2 +answers and drafts that the person asked for", text)
        assert listed["named_in"] == ["testsets/feedback.jsonl", "testsets/feedback.reviews.jsonl"]
        assert ann.get("/sources").status_code == 303, "to the page that asks for a key"
        assert ben.get("/sources").status_code == 200
        for word in ("QXBRAKE", "QXNOTE", "ann.example"):
            assert holding(project, word) == []
    stored = events(project)
    asked = [event for event in stored if event["kind"] == "asked" and event["who"] != "ben"]
    assert {event["who"][:7] for event in asked} == {"sha256:"}
    emptied = [facts(event, "question", "origin", "documents") for event in asked]
    assert emptied == [("", "", [SOURCE])] * 2
    who = asked[0]["who"]
    erased = [(e["action"], e["subject"], e["outcome"]) for e in stored if e["kind"] == "erased"]
    assert erased == [("forget person", who, way) for way in ("begun", "done")]
    named = {event["kind"] for event in events(project, "--who", "ann.example")}
    assert "asked" in named


@pytest.fixture
def kept(project: Path) -> Path:
    """A project with an answer, a key and a link."""
    run(project, "ask -q", QUESTION)
    run(project, "keys add app")
    (project / "left.md").symlink_to(project / "docs" / "codes.md")
    return project


def test_an_unpacked_backup_answers_as_the_project_does(kept: Path, tmp_path: Path) -> None:
    archive = tmp_path / "project.zip"
    with WorkLock(kept / ".ragwright" / "data" / "work").exclusive("forget"):
        busy = ragwright(kept, "backup", str(archive), code=1)
    assert "forget" in busy.stderr
    assert not archive.exists(), "nobody writes while it is made"
    written = read_json(kept, f"backup {archive}")
    assert archive.stat().st_mode & 0o777 == 0o600
    assert {*written["left_out"]} == {"left.md", ".ragwright/cache"}
    assert read_json(tmp_path, f"backup {archive} --check") == written
    before, listed = read_json(kept, "retrieve", QUESTION)["hits"], run(kept, "keys list")
    shutil.rmtree(kept)
    shutil.unpack_archive(archive, kept)
    assert read_json(kept, "retrieve", QUESTION)["hits"] == before
    assert run(kept, "keys list") == listed
    assert read_json(kept, "ingest")["documents"]["unchanged"] == 2
    again = read_json(kept, f"backup {kept / 'again.zip'}")
    assert again["files"] == written["files"]
    assert not list(kept.glob(".backup-*"))
    elsewhere = "--set store.path=../elsewhere.sqlite"
    run(kept, f"ingest -q {elsewhere}")
    written = read_json(kept, f"backup {tmp_path / 'other.zip'} {elsewhere}")
    assert "own tools" in written["left_out"]["../elsewhere.sqlite"]


def test_a_damaged_archive_is_found(kept: Path, tmp_path: Path) -> None:
    archive = tmp_path / "project.zip"
    run(kept, f"backup {archive} -q")
    content = archive.read_bytes()
    run(kept, f"backup {archive}", code=1)
    assert archive.read_bytes() == content
    with zipfile.ZipFile(archive, "a") as added:
        added.writestr("docs/added.md", "not of the project")
    assert "docs/added.md" in ragwright(kept, "backup", str(archive), "--check", code=1).stderr
    for kept_out, text in (("", "changed"), ("docs/codes.md", "")):  # changed; missing
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(archive, "w") as new:
            for name in old.namelist():
                if name != kept_out:
                    new.writestr(name, text if name == "docs/codes.md" else old.read(name))
        with pytest.raises(StoreDamagedError, match=r"docs/codes\.md"):
            check_backup(archive)
    archive.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreDamagedError):
        check_backup(archive)


# -- the audit log ---------------------------------------------------------------------------


def events(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The events that the command prints, without its own."""
    lines = ragwright(folder, "log", "--lines", *words).stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["action"] != "log"]


def facts(event: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(event[name] for name in names or ("kind", "who", "action", "outcome"))


def test_each_request_leaves_an_event(project: Path) -> None:
    reader, owner = key(project, "ann"), key(project, "bob", role="owner")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    with served(project) as running:
        http = running.client(reader)
        reply = http.post("/v1/chat/completions", json=ASKED, headers={"x-request-id": "r-1"})
        assert reply.status_code == 200
        http.post("/v1/feedback", json={"id": reply.json()["id"], "verdict": "accepted"})
        assert http.get("/source", params={"id": SOURCE}).status_code == 200
        assert http.get("/source", params={"id": "docs/none.md"}).status_code == 404
        assert http.get("/outputs").status_code == 403
        assert running.client("rw_wrong").get("/v1/models").status_code == 401
        for path in ("/outputs", "/sources"):
            running.client(owner).get(path)
        browser = running.client()
        assert browser.post("/login", data={"key": "rw_wrong"}).status_code == 401
        browser.post("/login", data={"key": reader})
        browser.post("/logout")
        headers = {"accept": "application/json, text/event-stream"}
        for name, arguments in (("search", {"query": QUESTION}), ("fetch", {"id": SOURCE})):
            params = {"name": name, "arguments": arguments}
            http.post("/mcp/", json={**call, "params": params}, headers=headers)
        http.post("/mcp/", json={**call, "method": "tools/list", "params": {}}, headers=headers)
        for path in ("/healthz", "/v1/models", "/nowhere"):
            http.get(path)
    stored = events(project)
    assert [facts(event) for event in stored[:11]] == [
        ("asked", "ann", "POST /v1/chat/completions", "done"),
        ("changed", "ann", "POST /v1/feedback", "done"),
        ("saw", "ann", "GET /source", "done"),
        ("refused", "ann", "GET /source", "refused"),
        ("refused", "ann", "GET /outputs", "refused"),
        ("sign-in failed", "", "GET /v1/models", "refused"),
        ("saw", "bob", "GET /outputs", "done"),
        ("saw", "bob", "GET /sources", "done"),
        ("sign-in failed", "", "POST /login", "refused"),
        ("signed in", "ann", "POST /login", "done"),
        ("signed out", "ann", "POST /logout", "done"),
    ]
    assert [facts(event, "kind", "who") for event in stored[11:]] == [
        ("asked", "ann"),
        ("saw", "ann"),
    ]
    assert all(SOURCE in event["documents"] for event in stored[11:])
    asked = stored[0]
    assert facts(asked, "role", "origin", "request") == ("reader", "127.0.0.1", "r-1")
    assert facts(asked, "configuration", "subject", "question") == ("handbook", "1.1", "")
    assert SOURCE in asked["documents"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", asked["at"])
    assert stored[3]["documents"] == ["docs/none.md"]
    assert all(event["request"] for event in stored)
    assert {event["who"] for event in events(project, "--document", SOURCE)} == {"ann"}
    assert len(events(project, "--request", "r-1")) == 1
    assert len(events(project, "--who", "bob")) == 2


def test_people_without_keys_leave_events_with_names_and_documents(tmp_path: Path) -> None:
    """Also who is known but has no role, and what citations show again."""
    headers = "user_header: Remote-User, groups_header: Remote-Groups"
    settings = f"serve:\n  proxy: {{addresses: [127.0.0.0/8], {headers}}}\n"
    folder = MakeProject(tmp_path)(settings + "  people: {roles: {reader: [staff]}}\n")
    run(folder, "ingest -q")
    with served(folder) as running:
        http = running.http
        assert http.get("/sources", headers={"remote-user": "eve"}).status_code == 403
        ann = {"remote-user": "ann", "remote-groups": "staff"}
        assert http.post("/", data={"q": QUESTION}, headers=ann).status_code == 200
        assert http.get(f"/source/beside?id={SOURCE}", headers=ann).status_code == 200
    refused, *rest = events(folder)
    assert facts(refused) == ("refused", "proxy:eve", "GET /sources", "refused")
    assert [event["kind"] for event in rest] == ["asked", "saw"]
    assert {event["who"] for event in rest} == {"proxy:ann"}
    assert all(SOURCE in event["documents"] for event in rest)


def test_a_stream_is_stored_as_it_begins_and_as_it_ends_and_erased_without_the_fact(
    project: Path,
) -> None:
    reader = key(project, "ann", filters=("document_id=docs/s*",))
    with served(project, "serve.audit.questions=true") as running:
        http = running.client(reader)
        with http.stream("POST", "/v1/chat/completions", json={**ASKED, "stream": True}) as reply:
            pieces = reply.iter_bytes()
            assert next(pieces)
            assert events(project)[0]["outcome"] == "begun"
            assert b"[DONE]" in b"".join(pieces)
            # before the last byte, so it is there without a wait
            assert [event["outcome"] for event in events(project)] == ["begun", "done"]
    begun, done = events(project)
    assert begun["question"] == done["question"] == QUESTION
    assert SOURCE in done["documents"]
    assert begun["request"] == done["request"]
    assert done["subject"] == "1.1"
    run(project, f"forget {SOURCE}")
    after = events(project)[1]
    assert {name for name in done if done[name] != after[name]} == {"question", "documents"}
    assert after["question"] == ""
    assert "(erased)" in after["documents"]
    run(project, f"forget --tenant {done['scope']}", code=None)
    after = events(project)[1]
    assert facts(after, "who", "kind", "documents", "scope") == ("ann", "asked", [], "(erased)")


@pytest.mark.parametrize(
    ("keep", "keyed", "kept"),
    [("auto", False, False), ("auto", True, True), ("always", False, True), ("never", True, False)],
)
def test_the_log_is_kept_where_others_may_ask(
    project: Path, keep: str, keyed: bool, kept: bool
) -> None:
    secret = key(project, "ann") if keyed else ""
    with served(project, f"serve.audit.keep={keep}") as running:
        assert running.client(secret).post("/v1/retrieve", json={"query": "a"}).status_code == 200
    assert bool(events(project)) is kept


def test_a_request_is_refused_while_its_event_cannot_be_stored(project: Path) -> None:
    secret = key(project, "ann")

    def ledger(statement: str) -> None:
        with closing(sqlite3.connect(ProjectFolder(project).ledger)) as opened:
            opened.execute(statement)

    with served(project) as running:
        full = "BEGIN SELECT RAISE(ABORT, 'no'); END"
        ledger(f"CREATE TRIGGER full BEFORE INSERT ON audit_events {full}")
        reply = running.client(secret).post("/v1/chat/completions", json=ASKED)
        assert reply.status_code == 500
        assert "two years" not in reply.text
        ledger("DROP TRIGGER full")
        assert running.client(secret).post("/v1/chat/completions", json=ASKED).status_code == 200


def test_what_a_client_sends_forges_no_event_and_commands_no_terminal(project: Path) -> None:
    secret = key(project, "eve")
    forged = f"docs/none.md\n{SOURCE}\n\x1b[2J\x9b31m\u202e"
    with served(project, "serve.audit.questions=true") as running:
        http = running.client(secret)
        assert http.get("/source", params={"id": forged}).status_code == 404
        http.post("/v1/retrieve", json={"query": f"a\n2026-01-01T00:00:00 boss {forged}"})
        http.get(f"/outputs/{quote(forged)}")
    assert not any(SOURCE in event["documents"] for event in events(project, "--last", "1"))
    assert [event["kind"] for event in events(project, "--document", SOURCE)] == ["asked"]
    [named] = events(project, "--document", forged)
    assert named["documents"] == [forged.replace("\n", " ")]
    for form in ("", "--lines", "--json"):
        shown = run(project, f"log {form}")
        assert not set("\x1b\x9b\u202e") & set(shown)
        assert "\n2026-01-01T00:00:00 boss" not in shown


def test_wrong_keys_cannot_fill_the_disk(project: Path) -> None:
    key(project, "ann")
    with served(project) as running:
        wrong = running.client("rw_wrong")
        assert {wrong.get("/v1/models").status_code for _ in range(300)} == {401}
    assert 120 <= len(events(project)) <= 242  # a minute may end in between


def test_the_address_behind_a_proxy_is_believed_only_from_known_ones(project: Path) -> None:
    secret = key(project, "ann")
    with served(project) as alone, served(project, "serve.proxy.addresses=[127.0.0.1]") as behind:
        sent = {"x-forwarded-for": "198.51.100.7, 203.0.113.9, 127.0.0.1"}
        for running in (alone, behind):
            running.client(secret).post("/v1/retrieve", json={"query": "a"}, headers=sent)
    assert [event["origin"] for event in events(project)] == ["127.0.0.1", "203.0.113.9"]


def test_what_an_owner_does_by_command_is_kept_from_the_first_key_on(project: Path) -> None:
    run(project, "outputs export -o before.jsonl")
    assert events(project) == [], "without keys no log is begun"
    run(project, "keys add ann")
    run(project, "outputs export -o after.jsonl")
    run(project, f"forget {SOURCE}")
    run(project, "keys revoke ann")
    stored = events(project)
    assert [facts(event, "kind", "action", "outcome") for event in stored] == [
        ("changed", "keys add", "done"),
        ("exported", "outputs export", "done"),
        ("erased", "forget document", "begun"),
        ("erased", "forget document", "done"),
        ("changed", "keys revoke", "done"),
    ]
    assert all(event["who"] and event["origin"] for event in stored)
    assert SOURCE not in json.dumps(stored), "what was erased is not named again"
    shown = run(project, "log")
    assert "forget document" in shown
    assert run(project, "log --since", "2020-01-01 08:00+02:00") == shown
    assert "no such event" in run(project, "log --until 2020-01-01")
    assert "--kind <asked|saw|" in run(project, "log --help")
    [export] = read_json(project, "log --last 1")["events"]
    assert facts(export, "kind", "subject") == ("exported", "audit log"), "reading all is an event"


@pytest.mark.slow
def test_no_answer_was_given_without_its_event_whenever_the_server_is_killed(project: Path) -> None:
    secret = key(project, "ann")
    for pause in (0.3, 0.8):
        process = started(project, "serve", "--port", "0")
        assert process.stderr is not None
        told = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stderr)
        address = next(found[0] for found in told if found)
        answered: list[str] = []
        stop = threading.Event()

        def ask(worker: int, address: str, answered: list[str], stop: threading.Event) -> None:
            with httpx2.Client(base_url=address, timeout=20) as http, suppress(httpx2.HTTPError):
                for turn in itertools.count():
                    if stop.is_set():
                        return
                    name = f"{address[-5:]}-{worker}-{turn}"
                    headers = {"authorization": f"Bearer {secret}", "x-request-id": name}
                    reply = http.post("/v1/retrieve", json={"query": QUESTION}, headers=headers)
                    if reply.status_code == 200:
                        answered.append(name)

        with ThreadPoolExecutor(4) as pool:
            for worker in range(4):
                pool.submit(ask, worker, address, answered, stop)
            wait_until(answered.copy)
            time.sleep(pause)
            process.kill()
            process.communicate(timeout=20)
            stop.set()
        assert len(answered) > 4
        assert {*answered} <= {event["request"] for event in events(project)}
    with closing(sqlite3.connect(ProjectFolder(project).ledger)) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_commands_write_to_files_is_in_the_log(project: Path) -> None:
    row = {"id": "a", "user_input": "When is it changed?", "reference": "every two years"}
    write_rows(project / "set.jsonl", [row])
    run(project, "keys add ben")
    run(project, "eval --testset set.jsonl --measures TokenF1 -o run.json")
    written = (
        ("records export", "gold -o gold.csv", "gold.csv"),
        ("report", "", "report.html"),
        ("report", "-o other.html", "other.html"),
        ("report", "--json", "report.html"),
        ("score", "latest -o rows.csv", "rows.csv"),
        ("retrieve", "brakes -o hits.json", "hits.json"),
        ("review", "set.jsonl --csv sheet.csv", "sheet.csv"),
        ("outputs export", "-o all.jsonl", "all.jsonl"),
        ("log", "-o log.jsonl", "log.jsonl"),
    )
    for command, words, _ in written:
        run(project, f"{command} {words}", code=None)  # it has no records
    run(project, "score latest -o dry.csv --dry-run", code=None)  # writes nothing
    lines = run(project, "log --kind exported --lines").splitlines()
    found = [(e["action"], e["subject"]) for e in map(json.loads, lines)]
    expected = [("eval", "run.json"), *((command, name) for command, _, name in written)]
    assert [pair for pair in found if pair[1] != "audit log"] == expected


# -- jobs ------------------------------------------------------------------------------------

SLOW = """
import pathlib, time
pathlib.Path("begun.txt").touch()
while not pathlib.Path("go.txt").exists():
    time.sleep(0.05)
class Reader:
    pass
"""
WAITING = "sources: [{source: x.slow, reader: 'slow:Reader'}]\n"
"""A project whose `ingest` waits until the file go.txt is there (and fails then)."""


def with_jobs(folder: Path, jobs: str, sources: str = "sources: [docs/]\n") -> Path:
    text = "# One\n\nThe filter is changed every year.\n"
    files = {"docs/a.md": text, "slow.py": SLOW, "ragwright.yaml": sources + jobs}
    return write_files(folder, files)


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "ragwright", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )


@pytest.mark.slow
def test_a_job_is_run_listed_and_looked_back_on(tmp_path: Path) -> None:
    folder = with_jobs(
        tmp_path,
        "jobs:\n  nightly:\n    flags: {shown: false}\n    schedule: 30 7 * * mon-fri\n"
        "    timezone: Europe/Paris\n    steps: [ingest -q, {run: cache show, when: shown}]\n"
        "  a: {steps: [score nowhere.jsonl --measures ExactMatch], "
        "notify: {failure: ['${HOOK}']}}\n",
    )
    assert run(folder, "job history").startswith("no runs yet")
    made = read_json(folder, "job run nightly --flag shown")
    assert (made["outcome"], made["trigger"], made["attempts"]) == ("succeeded", "by hand", 1)
    assert [step["exit_code"] for step in made["steps"]] == [0, 0]
    assert "replies" in made["steps"][1]["output"]
    assert read_json(folder, "job history")["runs"] == [made]
    assert "2. cache show: succeeded" in run(folder, "job history --run 1")
    done = ragwright(folder, "job", "run", "a", code=1)
    assert not lacking(done.stdout, "failed: step 1", "nowhere.jsonl")
    assert "error:" in done.stderr, "what the step printed, as it printed it"
    with_jobs(folder, "jobs:\n  a:\n    steps:\n      - ingst -q\n")
    assert "ragwright.yaml:5" in run(folder, "doctor", code=1)


@pytest.mark.slow
def test_a_job_that_runs_already_is_refused_or_waited_for(tmp_path: Path) -> None:
    folder = with_jobs(tmp_path, "jobs:\n  a: {steps: [cache show]}\n")
    lock = JobRunner(ProjectFolder(folder)).take(Jobs(folder).planned["a"], "schedule")
    assert lock is not None
    said = ragwright(folder, "job", "run", "a", code=1).stderr
    assert f"running already: schedule, by process {os.getpid()}" in said
    other = started(folder, "job", "run", "a", "--wait")
    assert other.stderr is not None
    assert "waiting for it" in other.stderr.readline()
    lock.release()
    out, _ = other.communicate(timeout=60)
    assert other.returncode == 0
    assert "succeeded" in out


@pytest.mark.slow
def test_a_run_by_hand_that_is_ended_ends_its_step(tmp_path: Path) -> None:
    folder = with_jobs(tmp_path, "jobs:\n  a: {steps: [ingest]}\n", WAITING)
    process = started(folder, "job", "run", "a")
    wait_until((folder / "begun.txt").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    (made,) = Jobs(folder).history()
    assert (made.state, made.reason) == ("stopped", "stopped by hand")
    lock = JobRunner(ProjectFolder(folder)).take(Jobs(folder).planned["a"], "by hand")
    assert lock is not None, "the step is gone, too"
    lock.release()


def missed(folder: Path) -> Path:
    """A project with a job that was due half an hour ago, while nothing was serving."""
    schedule = f"{int(time.time() // 60 + 30) % 60} * * * *"
    made = with_jobs(folder, f"jobs:\n  a: {{steps: [ingest], schedule: {schedule}}}\n", WAITING)
    JobRunner(ProjectFolder(made)).history.since("a", f"{schedule} UTC", time.time() - 7200)
    return made


@pytest.mark.slow
def test_the_scheduler_catches_up_and_ends_after_the_running_job(tmp_path: Path) -> None:
    folder = missed(tmp_path)
    serving = started(folder, "job", "serve")
    wait_until((folder / "begun.txt").exists)
    said = ragwright(folder, "job", "serve", code=1).stderr
    assert f"already served by process {serving.pid}" in said
    serving.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    assert serving.poll() is None, "the job is not over"
    (folder / "go.txt").touch()
    _, heard = serving.communicate(timeout=60)
    assert serving.returncode == 0
    lines = heard.splitlines()
    assert "a: next run" in lines[0]
    assert lines[1].endswith("a: started (catch-up)")
    assert lines[2] == "ending after a; again to end at once"
    assert "a: failed: step 1 (ingest) ended with exit code 1" in lines[3]
    (made,) = Jobs(folder).history()
    assert (made.trigger, made.state) == ("catch-up", "failed")
