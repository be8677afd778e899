"""Who comes in: cookies of keys, people whom a proxy names, hosts, origins, and paths below one."""

from __future__ import annotations

import hmac
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from browsing import opened
from nginx import guide_configuration, nginx
from raw_server import QuietHandler, serving
from served import Running, asks, handbook, key, served, written_by
from small_project import QUESTION, MakeProject, ingested

from ragwright.core import ConfigError, RagwrightError
from ragwright.project import ProjectFolder
from ragwright.serve import ListenAddress, ServedProject, ServeKeys, serve
from ragwright.testing import ScriptedServer

NAME = "ragwright_reader"


# -- hosts and origins ---------------------------------------------------------------------------


def test_other_names_and_other_sites_are_refused_without_keys(offline: Running) -> None:
    named = offline.http.get("/v1/models", headers={"host": "attacker.example"})
    assert named.status_code == 421
    for origin in ("https://attacker.example", "http://["):
        headers = {"origin": origin}
        crossed = offline.http.post("/v1/retrieve", json={"query": "a"}, headers=headers)
        assert crossed.status_code == 403


@pytest.mark.parametrize("host", ["[", "[::1", "a:b", "127.0.0.1:99999999", "an_attacker.example"])
def test_a_host_header_that_cannot_be_read_is_refused(offline: Running, host: str) -> None:
    parts = urlsplit(offline.address)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as link:
        link.sendall(
            f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode()
        )
        reply = link.recv(65536).decode()
    assert re.match(r"HTTP/1.1 (400|421) ", reply), reply
    assert offline.http.get("/healthz").status_code == 200


def test_a_page_of_another_site_cannot_ask(offline: Running) -> None:
    crossed = {"sec-fetch-site": "cross-site"}
    cited = offline.http.get("/source", params={"id": "docs/codes.md"}, headers=crossed)
    assert cited.status_code == 200, "links of chat programs keep working"
    for path in ("/", "/ask/stream", "/drafts", "/outputs/1.1", "/testsets/a.jsonl/decide"):
        for headers in ({"origin": "http://elsewhere.example"}, crossed):
            sent = offline.http.post(path, data={"q": "a"}, headers=headers)
            assert sent.status_code == 403, path


LINK = re.compile(r'(?:href|action|src|hx-get|hx-post)="(/[^"]*)"')
READ = re.compile(r'(?:href|src|hx-get)="(/[^"]*)"')


@pytest.mark.parametrize("removed", [False, True], ids=["path kept", "path removed"])
def test_below_a_path_every_link_keeps_it_and_signing_in_leads_back(
    tmp_path: Path, removed: bool
) -> None:
    below = "serve.public_url=http://127.0.0.1/ragwright"
    with handbook(tmp_path, "", below) as server:
        http, prefix = server.http, "" if removed else "/ragwright"
        reply = http.post(f"{prefix}/v1/chat/completions", json=asks(QUESTION)).json()
        [cited, *_] = reply["ragwright"]["citations"]
        assert urlsplit(cited["url"]).path == "/ragwright/source"
        for path in ("/", f"/?q={QUESTION}", "/sources", "/outputs", "/login"):
            page = http.get(prefix + path)
            assert page.status_code == 200, page.text
            links = LINK.findall(page.text)
            assert links
            assert all(link.startswith("/ragwright/") for link in links), links
        for link in READ.findall(http.get(f"{prefix}/sources").text):
            way = link.removeprefix("/ragwright") if removed else link
            if "logout" not in way:
                assert http.get(way.replace("&amp;", "&")).status_code == 200, link
        moved = http.get(f"{prefix}/mcp", follow_redirects=False)
        assert urlsplit(moved.headers["location"]).path == "/ragwright/mcp/"
        secret = key(server.folder, "me", "owner")
        asked = http.get(f"{prefix}/sources", headers={"accept": "text/html"})
        assert asked.headers["location"] == "/ragwright/login?next=%2Fsources"
        entered = http.post(f"{prefix}/login", data={"key": secret, "next": "/sources"})
        assert entered.headers["location"] == "/ragwright/sources"
        assert http.get(f"{prefix}/sources").status_code == 200


# -- keys that are entered on a page: a signed cookie, which is no key and ends with its key -------


def signed(folder: Path, secret: str, ends: str) -> str:
    known = ServeKeys(ProjectFolder(folder)).find(secret)
    assert known is not None
    signature = hmac.new(known.hash.encode(), f"{NAME} {ends}".encode(), "sha256").hexdigest()
    return f"{known.hash[:16]}.{ends}.{signature}"


def entered(running: Running, secret: str) -> str:
    reply = running.client().post("/login", data={"key": secret})
    return str(reply.headers["set-cookie"])


def test_a_cookie_is_no_key_and_nobody_else_can_sign_one(keyed: Running) -> None:
    secret, other = key(keyed.folder, "reader"), key(keyed.folder, "other")
    http = keyed.client()
    cookie = http.post("/login", data={"key": secret}).headers["set-cookie"]
    value = cookie.partition("=")[2].partition(";")[0]
    assert secret not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie, "it came without TLS"
    assert http.get("/sources").status_code == 200
    ends = value.split(".")[1]
    assert value == signed(keyed.folder, secret, ends)
    for headers in ({"authorization": f"Bearer {value}"}, {"x-api-key": value}):
        assert keyed.client().get("/v1/models", headers=headers).status_code == 401
    for text in (
        signed(keyed.folder, secret, "1"),  # it has ended
        value.replace(ends, "9" * 11),
        value.replace(ends, "9" * 5000),
        signed(keyed.folder, other, ends)[:16] + value[16:],
        value[:-1] + ("0" if value[-1] != "0" else "1"),
        value.upper(),
        "..",
        "\u0661" + value[1:],
    ):
        sent = {b"cookie": f"{NAME}={text}".encode()}
        assert keyed.client().get("/sources", headers=sent).status_code == 401, text


def test_a_cookie_holds_after_a_restart_and_not_after_its_key(tmp_path: Path) -> None:
    with handbook(tmp_path) as running:
        secret = key(running.folder, "reader")
        sent = {"cookie": entered(running, secret).partition(";")[0]}
    with served(running.folder) as running:
        assert running.client().get("/sources", headers=sent).status_code == 200
        ServeKeys(ProjectFolder(running.folder)).revoke("reader")
        assert running.client().get("/sources", headers=sent).status_code == 401
        key(running.folder, "reader")
        assert running.client().get("/sources", headers=sent).status_code == 401, "another key"


def test_behind_tls_the_cookie_is_sent_by_tls_alone(tmp_path: Path) -> None:
    with handbook(tmp_path, "", "serve.public_url=https://ask.example.org") as running:
        assert "; Secure" in entered(running, key(running.folder, "reader"))


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil", "/\t/evil.example", "https://e.x"])
def test_nobody_is_led_to_another_site(keyed: Running, wanted: str) -> None:
    secret = key(keyed.folder, f"led-{len(wanted)}")
    away = keyed.client().post("/login", data={"key": secret, "next": wanted})
    assert away.headers["location"] == "/"
    assert f'value="{wanted}"' not in keyed.http.get("/login", params={"next": wanted}).text


def test_a_link_never_asks(tmp_path: Path) -> None:
    model = ScriptedServer("Every two years [1].")
    with model, handbook(tmp_path, written_by(model)) as running:
        http = running.client()
        http.post("/login", data={"key": key(running.folder, "reader")})
        shown = http.get("/", params={"q": QUESTION})
        assert QUESTION in shown.text, "the form holds it"
        foreign = {"origin": "http://evil.example"}
        assert http.post("/", data={"q": QUESTION}, headers=foreign).status_code == 403
        assert not model.requests
        assert "Every two years" in http.post("/", data={"q": QUESTION}).text
        assert len(model.requests) == 1


@pytest.mark.slow
def test_a_link_of_another_site_opens_and_its_form_does_not(browser: Any, keyed: Running) -> None:
    page = opened(browser, keyed.address + "/login", [])
    page.fill("#key", key(keyed.folder, "browsing"))
    page.click("button.go")
    page.wait_for_selector("#ask")
    link = f"<a href='{keyed.address}/sources'>cited</a>"
    form = f"<form method=post action='{keyed.address}/'><input name=q value=a>"
    page.goto(f"data:text/html,{link}{form}<button>x</button></form>")
    page.click("a")
    page.wait_for_url("**/sources")
    assert page.locator("h1").inner_text() == "Sources"
    page.go_back()
    with page.expect_response(keyed.address + "/") as refused:
        page.click("button")
    assert refused.value.status in (401, 403)
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
    keyed: Running, capsys: pytest.CaptureFixture[str], host: str, public: str, warns: bool
) -> None:
    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    overrides = (f"serve.public_url={public}",) if public else ()
    with pytest.raises(StopError):
        serve(ServedProject(keyed.folder, overrides), ListenAddress(host, 0, 1, stop))
    assert ("served without TLS" in capsys.readouterr().err) is warns


def test_a_public_address_needs_a_key(offline: Running) -> None:
    with pytest.raises(ConfigError, match="no key has been made"):
        serve(ServedProject(offline.folder), ListenAddress("0.0.0.0", 0))


# -- people whom a proxy names in headers --------------------------------------------------------

PROXY = (
    "proxy: {addresses: [127.0.0.1], user_header: Remote-User, name_header: Remote-Name, "
    "groups_header: Remote-Groups}"
)
ROLES = "people: {roles: {reader: [staff], reviewer: [editors], owner: [admins]}}"
TEXTS = {
    name: f"---\ngroups: [{group}]\n---\n# Plan\n\nThe door opens.\n"
    for name, group in (("hr.md", "hr"), ("berlin.md", "hr/berlin"))
}


def behind(folder: Path, *settings: str, **texts: str) -> Path:
    lines = "".join(f"  {line}\n" for line in ("name: handbook", *settings))
    return ingested(folder, f"serve:\n{lines}", **texts)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of documents of groups, with people of three roles."""
    with served(behind(tmp_path_factory.mktemp("people"), PROXY, ROLES, **TEXTS)) as server:
        yield server


def who(name: str, *groups: str, **more: str) -> dict[str, str]:
    return {"remote-user": name, "remote-groups": ",".join(groups), **more}


def test_headers_count_only_from_the_proxy(people: Running) -> None:
    http, ann = people.http, who("ann", "staff", " other")
    assert http.get("/v1/models").status_code == 401, "also on this machine"
    assert http.get("/v1/models", headers=ann).status_code == 200
    labelled = [(b"remote-user", b"ann"), (b"remote-groups", b"staff")]
    shown = http.get("/sources", headers=[*labelled, (b"remote-name", "Ann É".encode())]).text
    assert ">Ann É<" in shown
    assert "Sign out" not in shown, "that is the proxy's to do"
    staff = ("remote-groups", "staff")
    wrong: list[list[tuple[str, str]]] = [
        [("remote-user", "ann"), ("remote-user", "olga"), staff],
        [("remote-user", "ann"), staff, ("remote-groups", "admins")],
        [("remote_user", "ann"), staff],
        [("remote-user", "x" * 256), staff],
        [("remote-user", "ann"), ("remote-groups", ",".join(map(str, range(501))))],
        [staff],
    ]
    assert {http.get("/v1/models", headers=sent).status_code for sent in wrong} == {401}
    refused = http.get("/v1/models", headers={"remote-user": "eve"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_role")
    rebound = {**ann, "host": "evil.example"}
    assert http.get("/v1/models", headers=rebound).status_code == 421
    other = httpx2.HTTPTransport(local_address="127.0.0.2")
    with httpx2.Client(transport=other, base_url=people.address) as foreign:
        assert foreign.get("/v1/models", headers=ann).status_code == 401


def test_a_header_that_is_not_named_counts_for_nothing(tmp_path: Path) -> None:
    """A proxy that replaces one header lets through what a client sends in others."""
    proxy = "proxy: {addresses: [127.0.0.1], user_header: Remote-User}"
    roles = "people: {default_role: reader, roles: {owner: [admins]}}"
    forged = ("remote-groups", "x-forwarded-groups", "x-auth-request-groups")
    sent = {"remote-user": "eve", **dict.fromkeys(forged, "admins")}
    with served(behind(tmp_path, proxy, roles)) as server:
        assert server.http.get("/v1/models", headers=sent).status_code == 200
        assert server.http.get("/outputs", headers=sent).status_code == 403


def test_credentials_that_browsers_add_open_no_way_for_other_sites(people: Running) -> None:
    """Browsers send a proxy's Basic credentials with the forms of every site."""
    foreign = who("ann", "staff", origin="https://other.example")
    for credentials in ("Basic YW5uOng=", "Negotiate YQ=="):
        sent = {**foreign, "authorization": credentials}
        assert people.http.post("/", data={"q": "a"}, headers=sent).status_code == 403


def test_groups_decide_what_people_may(people: Running) -> None:
    pages = ("/v1/models", "/testsets", "/outputs")

    def states(*groups: str, secret: str = "") -> list[int]:
        sent = who("ann", *groups) if groups else {}
        http = people.client(secret)
        return [http.get(page, headers=sent).status_code for page in pages]

    assert states("staff") == [200, 403, 403]
    assert states("editors", "hr", "hr/berlin") == [200, 200, 403]
    assert states("admins") == [200, 200, 200]
    assert states("visitors") == [403, 403, 403]
    assert states("staff", "admins") == [200, 200, 200]
    secret = key(people.folder, "program")
    assert states(secret=secret) == [200, 403, 403]
    assert states("admins", secret=secret) == [200, 200, 200]


@pytest.mark.parametrize(
    ("sent", "readable"),
    [
        (["staff", "/hr/berlin"], {"berlin.md"}),
        (["staff", "hr/berlin"], {"berlin.md"}),
        (["staff", "/hr"], {"hr.md"}),
        (["staff", "/hr", "/hr/berlin", "hr"], {"hr.md", "berlin.md"}),
        (["staff", "/berlin"], set()),
        (["staff", "//hr", "/hr/", "/", "hr/berlin/team", "/HR"], set()),
    ],
)
def test_a_group_is_named_by_its_path_without_the_first_slash(
    people: Running, sent: list[str], readable: set[str]
) -> None:
    """Keycloak sends full paths; a member of a group below is no member of the one above."""
    body = {"query": "What opens the plan?"}
    reply = people.http.post("/v1/retrieve", json=body, headers=who("ann", *sent))
    assert {hit["document_id"].removeprefix("docs/") for hit in reply.json()["hits"]} == readable


def test_configurations_are_opened_by_groups(tmp_path: Path) -> None:
    configurations = "configurations: {short: [retrieve.top_k=2], wide: [retrieve.top_k=9]}"
    groups = "configurations: {staff: [short], more: [wide, short]}"
    roles = f"people: {{default_role: reader, roles: {{owner: [admins]}}, {groups}}}"
    seen = {}
    with served(behind(tmp_path, PROXY, configurations, roles)) as server:
        for group in ("staff", "more", "admins", "none"):
            reply = server.http.get("/v1/models", headers=who("ann", group)).json()
            seen[group] = sorted(entry["id"] for entry in reply.get("data", []))
    assert seen == {
        "staff": ["short"],
        "more": ["short", "wide"],
        "admins": ["handbook", "short", "wide"],
        "none": [],  # a group that opens nothing does not open everything
    }


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("proxy: {user_header: Remote-User}", "no address"),
        ("proxy: {groups_header: Remote-Groups}", "no address"),
        ("proxy: {addresses: [10.0.0.5], groups_header: G}", "user_header is empty"),
        ("proxy: {addresses: [0.0.0.0/0], user_header: U}", "names every address"),
        ("proxy: {addresses: [proxy.example], user_header: U}", "does not appear to be"),
        ("proxy: {addresses: [10.0.0.5], user_header: Authorization}", "cannot name people"),
        ("proxy: {addresses: [10.0.0.5], user_header: 'Remote User'}", "cannot name people"),
        ("proxy: {addresses: [10.0.0.5], user_header: U}", "people lets nobody in"),
        ("people: {roles: {admin: [x]}}", "'admin' is not a role"),
        ("personas: [enginer]", "unknown persona 'enginer'"),
        ("cors: ['*']", "is not an origin"),
        ("cors: ['https://app.example.org/x']", "is not an origin"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, settings: str, fault: str) -> None:
    folder = MakeProject(tmp_path)(f"serve:\n  {settings}\n")
    with pytest.raises(RagwrightError, match=fault):
        serve(ServedProject(folder), ListenAddress("127.0.0.1", 0))


# -- the configurations of the guide, run by Debian's nginx ----------------------------------------

GROUPS = {
    "engineering": ("How often must the hydraulic press be oiled?", "40 hours"),
    "sales": ("What discount do resellers get on spare parts?", "17 percent"),
}
"""A question of each group, and what only its document answers."""
OILED = "# Press\n\nThe hydraulic press must be oiled every 40 hours.\n"
DISCOUNT = "# Price list\n\nResellers get a discount of 17 percent on spare parts.\n"
SIGNED_IN = {
    "ann": ("Ann É", "engineering,other"),
    "ben": ("Ben", "sales"),
    "cleo": ("Cleo", "board"),
    "eve": ("Eve", "visitors"),
}
"""Name for pages, and groups, by the name in the cookie of the program that signs people in."""


@contextmanager
def signing_in(prefix: str) -> Iterator[int]:
    """The port of a program that answers nginx's question who somebody is, by a cookie."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            name = self.headers.get("cookie", "").removeprefix("person=")
            if name not in SIGNED_IN:
                there = {"location": "https://id.example.org/", "content-length": "0"}
                self.begin(401, there)
                return
            shown, groups = SIGNED_IN[name]
            label = "Preferred-Username" if prefix.startswith("X-") else "Name"
            named = {"User": name, label: shown, "Groups": groups}
            sent = {f"{prefix}{k}": v.encode().decode("latin-1") for k, v in named.items()}
            self.begin(200, {**sent, "content-length": "0"})

    with serving(Handler) as port:
        yield port


@dataclass(frozen=True)
class Site:
    """A server behind nginx, the key of a program, and whether keys go past the sign-in."""

    address: str
    key: str
    keys: bool

    def browser(self, name: str, **headers: str) -> httpx2.Client:
        cookie = {"cookie": f"person={name}"} if name else {}
        sent = {**cookie, "accept": "text/html", **headers}
        return httpx2.Client(base_url=self.address, headers=sent, timeout=20)


@pytest.fixture(scope="module", params=["authelia", "oauth2"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    which = request.param
    roles = "people: {roles: {owner: [board], reader: [engineering, sales]}}"
    texts = {
        f"{group}.md": f"---\ngroups: [{group}]\n---\n{text}"
        for group, text in zip(GROUPS, (OILED, DISCOUNT), strict=True)
    }
    folder = behind(tmp_path_factory.mktemp(which), PROXY, roles, **texts)
    secret = key(folder, "program", groups=("sales",))
    prefix = "Remote-" if which == "authelia" else "X-Auth-Request-"
    with signing_in(prefix) as asked, served(folder) as running:
        port = int(running.address.rpartition(":")[2])
        ports = {8321: port, 9091: asked, 4180: asked}
        with nginx(guide_configuration(which), ports) as address:
            yield Site(address, secret, which == "authelia")


@pytest.mark.slow
@pytest.mark.needs_nginx
@pytest.mark.parametrize("group", GROUPS)
def test_people_get_the_documents_of_their_groups(site: Site, group: str) -> None:
    question, secret = GROUPS[group]
    for name, (label, groups) in SIGNED_IN.items():
        with site.browser(name) as http:
            page = http.post("/", data={"q": question})
            stream = http.post("/ask/stream", data={"q": question})
            document = http.get("/source", params={"id": f"docs/{group}.md"})
            if name == "eve":
                assert {r.status_code for r in (page, stream, document)} == {403}
                continue
            sees = group in groups.split(",") or groups == "board"
            assert (secret in page.text) is sees
            assert (secret in stream.text) is sees
            assert document.status_code == (200 if sees else 404)
            assert f">{label}<" in page.text
            assert http.get("/outputs").status_code == (200 if groups == "board" else 403)


@pytest.mark.slow
@pytest.mark.needs_nginx
def test_headers_that_a_client_sends_are_replaced(site: Site) -> None:
    sent = who("cleo", "board", **{"remote-name": "Cleo"})
    with site.browser("ann", **sent) as http:
        assert http.get("/outputs").status_code == 403
        assert ">Ann É<" in http.get("/").text
    with site.browser("", **sent) as http:
        assert http.get("/outputs").status_code == 302, "to the page that signs people in"
        for path in ("/v1/models", "/mcp/", "/retrieval"):
            reply = http.post(path, json={"knowledge_id": "handbook", "query": "x"})
            assert reply.status_code in ({401, 403, 405} if site.keys else {302}), path


@pytest.mark.slow
@pytest.mark.needs_nginx
def test_programs_with_keys_go_past(site: Site) -> None:
    sent = who("cleo", "board", authorization=f"Bearer {site.key}")
    with httpx2.Client(base_url=site.address, headers=sent, timeout=20) as http:
        if not site.keys:  # this configuration has people alone
            assert http.get("/v1/models").status_code == 302
            return
        for group, (question, secret) in GROUPS.items():
            found = http.post("/v1/retrieve", json={"query": question})
            assert (secret in found.text) is (group == "sales")
        question, secret = GROUPS["sales"]
        body = asks(question, stream=True)
        with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            frames = [line[6:] for line in reply.iter_lines() if line.startswith("data: {")]
        deltas = [json.loads(frame)["choices"][0]["delta"] for frame in frames]
        assert secret in "".join(delta.get("content", "") for delta in deltas)
        assert http.get("/outputs").status_code == 302
