"""Readers who sign in: a session of the server, in a cookie that nothing foreign carries."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest
from browsing import opened
from command_line import ragwright
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import Listening, ServeKey, ServeKeys, Serving, serve
from ragwright.testing import ScriptedServer

QUESTION = "How often must the brake fluid be changed?"


def project(tmp_path: Path, settings: str = "") -> Path:
    folder = MakeProject(tmp_path)(f"serve: {{name: handbook}}\n{settings}")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def key(folder: Path, name: str = "reader") -> str:
    return ServeKeys(ProjectFolder(folder)).add(ServeKey(name))


def test_the_cookie_is_a_session_that_ends_and_is_no_key(tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder) as running:
        http = running.client()
        cookie = http.post("/login", data={"key": secret}).headers["set-cookie"]
        session = re.match(r"ragwright_session=([\w-]{40,});", cookie)
        assert session is not None
        assert secret not in cookie
        assert "SameSite=strict" in cookie
        assert http.get("/sources").status_code == 200
        assert http.get("/session").json() == {"signed_in": True}
        [listed] = json.loads(ragwright(folder, "sessions", "list", "--json").stdout)["sessions"]
        assert abs(listed["began"] - time.time()) < 60
        for name in ("authorization", "x-api-key"):
            value = f"Bearer {session[1]}" if name == "authorization" else session[1]
            assert running.client().get("/v1/models", headers={name: value}).status_code == 401
        for kept in (folder / ".ragwright").rglob("ledger.sqlite*"):
            assert kept.stat().st_mode & 0o777 == 0o600
            assert session[1].encode() not in kept.read_bytes()
        http.post("/logout")
        stolen = {"cookie": f"ragwright_session={session[1]}"}
        assert running.client().get("/sources", headers=stolen).status_code == 401
        assert running.client().get("/session", headers=stolen).json() == {"signed_in": False}


def test_a_session_outlives_a_restart_and_not_its_key(tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder) as running:
        cookie = running.client().post("/login", data={"key": secret}).headers["set-cookie"]
    sent = {"cookie": cookie.partition(";")[0]}
    with served(folder) as running:
        assert running.client().get("/sources", headers=sent).status_code == 200
        ServeKeys(ProjectFolder(folder)).revoke("reader")
        assert running.client().get("/sources", headers=sent).status_code == 401


def test_a_session_of_an_older_version_goes_on(tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in ("session", secret)]
    file = folder / ".ragwright/data/serve/sessions.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    ends = time.time() + 60
    file.write_text(json.dumps({"version": 1, "sessions": {hashes[0]: [hashes[1], ends]}}))
    with served(folder) as running:
        for session, status in (("session", 200), ("another", 401)):
            sent = {"cookie": f"ragwright_session={session}"}
            assert running.client().get("/sources", headers=sent).status_code == status
    assert not file.exists()


def test_a_link_never_asks(tmp_path: Path) -> None:
    with ScriptedServer("Every two years [1].") as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        secret = key(folder)
        with served(folder) as running:
            http = running.client()
            http.post("/login", data={"key": secret})
            shown = http.get("/", params={"q": QUESTION})
            assert QUESTION in shown.text, "the form holds it"
            assert not model.requests
            asked = {"q": QUESTION}
            foreign = {"origin": "http://evil.example"}
            assert http.post("/", data=asked, headers=foreign).status_code == 403
            assert not model.requests
            assert "Every two years" in http.post("/", data=asked).text
            assert len(model.requests) == 1


def test_a_link_of_another_site_leads_a_reader_on(browser: Any, tmp_path: Path) -> None:
    """The cookie does not come along; the sign-in page finds the session and goes on."""
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder) as running:
        page = opened(browser, running.address + "/login", [])
        page.fill("#key", secret)
        page.click("button.go")
        page.wait_for_selector("#ask")
        page.goto("data:text/html,<a href='" + running.address + "/sources'>cited</a>")
        page.click("a")
        page.wait_for_url("**/sources")
        assert page.locator("h1").inner_text() == "Sources"
        page.close()


@pytest.mark.parametrize(
    ("host", "public", "warns"),
    [
        ("0.0.0.0", "", True),
        ("0.0.0.0", "http://rag.lan", True),
        ("0.0.0.0", "https://rag.example", False),
        ("127.0.0.1", "", False),
    ],
)
def test_a_server_without_tls_that_others_reach_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, public: str, warns: bool
) -> None:
    folder = project(tmp_path)
    key(folder)
    overrides = (f"serve.public_url={public}",) if public else ()

    class StopError(Exception):
        pass

    def stop(_: str) -> None:
        raise StopError

    with caplog.at_level(logging.WARNING, "ragwright.serve"), pytest.raises(StopError):
        serve(Serving(folder, overrides), Listening(host, 0, 1, stop))
    assert ("served without TLS" in caplog.text) is warns
