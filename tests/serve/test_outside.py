"""The server behind a proxy that serves it below a path, and called by pages of other origins."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError
from ragwright.project import ProjectFolder, load_settings
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "How often must the brake fluid be changed?"
ORIGIN = "https://app.example.org"
LINK = re.compile(r'(?:href|action|src|hx-get|hx-post)="(/[^"]*)"')

READ = re.compile(r'(?:href|src|hx-get)="(/[^"]*)"')


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer]}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.mark.parametrize("removed", [False, True], ids=["path kept", "path removed"])
def test_below_a_path_every_link_keeps_it(project: Path, removed: bool) -> None:
    with served(project, "serve.public_url=http://127.0.0.1/ragwright") as running:
        prefix = "" if removed else "/ragwright"
        reply = running.http.post(
            f"{prefix}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": QUESTION}]},
        ).json()
        [cited, *_] = reply["ragwright"]["citations"]
        assert urlsplit(cited["url"]).path == "/ragwright/source"
        for path in ("/", f"/?q={QUESTION}", "/sources", "/outputs", "/login"):
            page = running.http.get(prefix + path)
            assert page.status_code == 200, page.text
            links = LINK.findall(page.text)
            assert links
            assert all(link.startswith("/ragwright/") for link in links), links
        for link in READ.findall(running.http.get(f"{prefix}/sources").text):
            way = link.removeprefix("/ragwright") if removed else link
            if "logout" not in way:
                assert running.http.get(way.replace("&amp;", "&")).status_code == 200, link
        moved = running.http.get(f"{prefix}/mcp", follow_redirects=False)
        assert urlsplit(moved.headers["location"]).path == "/ragwright/mcp/"


def test_signing_in_below_a_path_leads_back_to_the_page(project: Path) -> None:
    secret = ServeKeys(ProjectFolder(project)).add(ServeKey("me", role="owner"))
    with served(project, "serve.public_url=http://127.0.0.1/ragwright") as running:
        asked = running.http.get(
            "/ragwright/sources", headers={"accept": "text/html"}, follow_redirects=False
        )
        assert asked.headers["location"] == "/ragwright/login?next=%2Fsources"
        entered = running.http.post(
            "/ragwright/login", data={"key": secret, "next": "/sources"}, follow_redirects=False
        )
        assert entered.headers["location"] == "/ragwright/sources"
        assert running.http.get(entered.headers["location"]).status_code == 200


def preflight(headers: str = "authorization,content-type") -> dict[str, str]:
    return {
        "origin": ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": headers,
    }


def test_pages_of_the_named_origins_may_call_the_api(project: Path) -> None:
    secret = ServeKeys(ProjectFolder(project)).add(ServeKey("app"))
    with served(project, f"serve.cors=[{ORIGIN}]") as running:
        path = "/v1/chat/completions"
        allowed = running.http.options(path, headers=preflight())
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == ORIGIN
        assert "authorization" in allowed.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in allowed.headers
        body = {"messages": [{"role": "user", "content": QUESTION}]}
        key = {"authorization": f"Bearer {secret}", "origin": ORIGIN}
        reply = running.http.post(path, json=body, headers=key)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == ORIGIN
        refused = running.http.post(path, json=body, headers={"origin": ORIGIN})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == ORIGIN, "the page may read why"
        other = running.http.options(path, headers=preflight() | {"origin": "https://evil.test"})
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers


def test_without_the_setting_no_other_origin_may(project: Path) -> None:
    with served(project) as running:
        answered = running.http.options("/v1/chat/completions", headers=preflight())
        assert "access-control-allow-origin" not in answered.headers
        reply = running.http.post("/v1/retrieve", json={"query": "a"}, headers={"origin": ORIGIN})
        assert reply.status_code == 403


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("serve.cors=['*']", "is not an origin"),
        ("serve.cors=['https://app.example.org/x']", "is not an origin"),
    ],
)
def test_what_is_no_origin_is_refused(project: Path, setting: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        load_settings(project / "ragwright.yaml", (setting,))
