"""Faults are logged with their request; readers see neither addresses nor where a secret lies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from served import handbook, key, written_by
from small_project import QUESTION

from ragwright.project import ProjectFolder
from ragwright.testing import Reply, ScriptedServer


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_model_is_logged_whole_and_readers_see_no_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    model = ScriptedServer(Reply("no", status=400))
    with model, handbook(tmp_path, written_by(model)) as running:
        reader, owner = (key(running.folder, name, name) for name in ("reader", "owner"))
        seen = running.ask(QUESTION, key=reader, stream=stream)
        shown = running.ask(QUESTION, key=owner, stream=stream)
    assert seen.status_code == shown.status_code == 502
    assert seen.json()["error"]["type"] == "server_error"
    assert "127.0.0.1" not in seen.text
    assert seen.headers["x-request-id"] in seen.json()["error"]["message"]
    assert "127.0.0.1" in shown.text
    assert "model_error" in caplog.text
    assert "127.0.0.1" in caplog.text


def test_readers_see_no_address_of_a_model_that_answers(tmp_path: Path) -> None:
    model = ScriptedServer("Every two years [1].")
    with model, handbook(tmp_path, written_by(model)) as running:
        for role in ("reader", "owner"):
            secret = key(running.folder, role, role)
            page = running.client(secret).post("/", data={"q": QUESTION}).text
            reply = running.ask(QUESTION, key=secret).text
            for text in (page, reply, running.ask(QUESTION, key=secret, stream=True).text):
                assert (model.url in text) is (role == "owner")
                assert "writer" in text


def test_what_a_model_server_says_of_its_key_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-a-secret-of-the-model"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    with ScriptedServer(Reply(status=401, error=f"bad key {secret}")) as model:
        named = f"models: {{'{model.url}#writer': {{key_env: OPENAI_API_KEY}}}}\n"
        with handbook(tmp_path, written_by(model) + named) as running:
            reply = running.ask(QUESTION)
        [sent, *_] = model.requests
    assert secret in sent.headers["authorization"]
    assert reply.status_code >= 400
    assert secret not in reply.text + caplog.text


@pytest.mark.slow
def test_an_outage_is_logged_once_with_its_route_and_once_when_it_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with handbook(tmp_path) as running:
        for name, kept in (("abc-1", True), ("a b", False), ("x" * 200, False)):
            reply = running.http.get("/healthz", headers={"x-request-id": name})
            assert (reply.headers["x-request-id"] == name) is kept
        client, ledger = running.client(key(running.folder, "reader")), running.folder
        assert client.get("/v1/models").status_code == 200
        caplog.clear()  # that reply may have ended an outage of another test in this process
        for before, after, states in (
            ("serve_keys", "away", [500] * 5),
            ("away", "serve_keys", [200] * 3),
        ):
            with closing(sqlite3.connect(ProjectFolder(ledger).ledger)) as opened:
                opened.execute(f"ALTER TABLE {before} RENAME TO {after}")
            assert [client.get("/v1/models").status_code for _ in states] == states
    lines = [r.getMessage() for r in caplog.records if "store_error" in r.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("store_error on /v1/models: ")
    assert lines[1].startswith("store_error has ended: /v1/models replies again after 5 failed")
