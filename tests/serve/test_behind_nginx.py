"""The configurations of the guide, run by Debian's nginx: people by headers, their groups, keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from nginx import guide_configuration, nginx
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

pytestmark = [pytest.mark.needs_nginx, pytest.mark.slow]

TEXTS = {
    "engineering": "# Press\n\nThe hydraulic press must be oiled every 40 hours.\n",
    "sales": "# Price list\n\nResellers get a discount of 17 percent on spare parts.\n",
}
QUESTIONS = {
    "engineering": "How often must the hydraulic press be oiled?",
    "sales": "What discount do resellers get on spare parts?",
}
SECRETS = {"engineering": "40 hours", "sales": "17 percent"}
PEOPLE = {
    "ann": ("Ann É", "engineering,other"),
    "ben": ("Ben", "sales"),
    "cleo": ("Cleo", "board"),
    "eve": ("Eve", "visitors"),
}
"""Name for pages, and groups, by the name in the cookie of the program that signs people in."""

SETTINGS = """serve:
  name: desk
  proxy: {addresses: [127.0.0.1], user_header: Remote-User, name_header: Remote-Name,
    groups_header: Remote-Groups}
  people: {roles: {owner: [board], reader: [engineering, sales]}}
"""


@contextmanager
def signing_in(prefix: str) -> Iterator[int]:
    """The port of a program that answers nginx's question who somebody is, by a cookie."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookie = self.headers.get("cookie", "")
            name = cookie.removeprefix("person=")
            if name not in PEOPLE:
                self.send_response(401)
                self.send_header("location", "https://id.example.org/")
            else:
                self.send_response(200)
                shown, groups = PEOPLE[name]
                label = "Preferred-Username" if prefix.startswith("X-") else "Name"
                for header, value in (("User", name), (label, shown), ("Groups", groups)):
                    self.send_header(f"{prefix}{header}", value.encode().decode("latin-1"))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Site:
    """A server behind nginx, the key of a program, and whether keys go past the sign-in."""

    address: str
    key: str
    keys: bool

    def browser(self, name: str, **headers: str) -> httpx2.Client:
        """The browser of a person who is signed in."""
        cookie = {"cookie": f"person={name}"} if name else {}
        sent = {**cookie, "accept": "text/html", **headers}
        return httpx2.Client(base_url=self.address, headers=sent, timeout=20)


@pytest.fixture(scope="module", params=["authelia", "oauth2"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    which = request.param
    texts = {f"{group}.md": f"---\ngroups: [{group}]\n---\n{text}" for group, text in TEXTS.items()}
    folder = MakeProject(tmp_path_factory.mktemp(which))(SETTINGS, **texts)
    with Workbench.open(folder) as bench:
        bench.ingest()
    key = ServeKeys(ProjectFolder(folder)).add(ServeKey("program", groups=("sales",)))
    prefix = "Remote-" if which == "authelia" else "X-Auth-Request-"
    with signing_in(prefix) as asked, served(folder) as running:
        port = int(running.address.rpartition(":")[2])
        ports = {8321: port, 9091: asked, 4180: asked}
        with nginx(guide_configuration(which), ports) as address:
            yield Site(address, key, which == "authelia")


@pytest.mark.parametrize("group", TEXTS)
def test_people_get_the_documents_of_their_groups(site: Site, group: str) -> None:
    for name, (_, groups) in PEOPLE.items():
        with site.browser(name) as http:
            page = http.post("/", data={"q": QUESTIONS[group]})
            form = {"q": QUESTIONS[group]}
            stream = http.post("/ask/stream", data=form)
            document = http.get("/source", params={"id": f"docs/{group}.md"})
            if name == "eve":
                assert {r.status_code for r in (page, stream, document)} == {403}
                continue
            sees = group in groups.split(",") or groups == "board"
            assert (SECRETS[group] in page.text) is sees
            assert (SECRETS[group] in stream.text) is sees
            assert document.status_code == (200 if sees else 404)
            assert f">{PEOPLE[name][0]}<" in page.text
            assert http.get("/outputs").status_code == (200 if groups == "board" else 403)


def test_headers_that_a_client_sends_are_replaced(site: Site) -> None:
    sent = {"remote-user": "cleo", "remote-groups": "board", "remote-name": "Cleo"}
    with site.browser("ann", **sent) as http:
        assert http.get("/outputs").status_code == 403
        assert ">Ann É<" in http.get("/").text
    with site.browser("", **sent) as http:
        assert http.get("/outputs").status_code == 302, "to the page that signs people in"
        for path in ("/v1/models", "/mcp/", "/retrieval"):
            reply = http.post(path, json={"knowledge_id": "desk", "query": "x"})
            assert reply.status_code in ({401, 403, 405} if site.keys else {302}), path


def test_programs_with_keys_go_past(site: Site) -> None:
    key = {"authorization": f"Bearer {site.key}", "remote-user": "cleo", "remote-groups": "board"}
    with httpx2.Client(base_url=site.address, headers=key, timeout=20) as http:
        if not site.keys:  # this configuration has people alone
            assert http.get("/v1/models").status_code == 302
            return
        for group in TEXTS:
            found = http.post("/v1/retrieve", json={"query": QUESTIONS[group]})
            assert (SECRETS[group] in found.text) is (group == "sales")
        body = {"messages": [{"role": "user", "content": QUESTIONS["sales"]}], "stream": True}
        with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            frames = [line[6:] for line in reply.iter_lines() if line.startswith("data: {")]
        text = "".join(
            json.loads(frame)["choices"][0]["delta"].get("content", "") for frame in frames
        )
        assert SECRETS["sales"] in text
        assert http.get("/outputs").status_code == 302


def test_the_guide_says_the_settings_that_are_tried() -> None:
    guide = Path(__file__).parents[2] / "docs/guide/operations.md"
    text = guide.read_text("utf-8")
    for line in ("user_header: Remote-User", "groups_header: Remote-Groups"):
        assert line in text
        assert line in SETTINGS
