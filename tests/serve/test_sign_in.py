"""Sign-in through a real identity provider: pages, roles, sessions, tokens, rotation of keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from browsing import opened
from identity_provider import SECRET, came_back, free_port, identity_provider
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys, Sessions

pytestmark = [pytest.mark.slow, pytest.mark.needs_npm]


@dataclass(frozen=True)
class Site:
    """A served project whose people sign in at a running provider."""

    folder: Path
    issuer: str
    running: Running

    def signed_in(self, login: str) -> httpx2.Client:
        """A browser of its own, signed in."""
        http = self.running.client()
        assert "Signed in" in http.get(self.way_back(http, login)).text
        return http

    def way_back(self, http: httpx2.Client, login: str) -> str:
        """The address that the provider sends a browser back to."""
        begun = http.get("/login/provider", params={"next": "/sources"})
        return came_back(http, begun.headers["location"], login)

    def token(self, audience: str, **more: str) -> dict[str, str]:
        """The header with an access token that the provider issues to a program."""
        form = {"grant_type": "client_credentials", "resource": audience, "scope": "ask", **more}
        reply = httpx2.post(f"{self.issuer}/token", data=form, auth=("robot", "robot-secret"))
        return {"authorization": f"Bearer {reply.json()['access_token']}"}


def opened_sessions(folder: Path) -> Sessions:
    project = ProjectFolder(folder)
    return Sessions(project.ledger, ServeKeys(project))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with identity_provider(address) as issuer, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGWRIGHT_CLIENT_SECRET", SECRET)
        folder = MakeProject(tmp_path_factory.mktemp("site"))(
            "serve:\n"
            f"  public_url: {address}\n"
            f"  sign_in: {{issuer: '{issuer}', client_id: ragwright, sign_out: provider,\n"
            f"    audiences: ['{address}/mcp', '{address}/v1'], name: Staff}}\n"
            "  people: {roles: {reader: [staff], reviewer: [editors], owner: [admins]}}\n"
        )
        with Workbench.open(folder) as bench:
            bench.ingest()
        with served(folder, port=port) as running:
            yield Site(folder, issuer, running)


def test_people_come_in_with_the_role_of_their_groups(site: Site) -> None:
    seen = {}
    for login in ("ann", "rex", "olga"):
        http = site.signed_in(login)
        pages = ("/sources", "/testsets", "/settings")
        seen[login] = [http.get(page).status_code for page in pages]
        assert f"Account of {login.title()} Example" in http.get("/sources").text
    assert seen == {
        "ann": [200, 403, 403],
        "rex": [200, 200, 403],
        "olga": [200, 200, 200],
    }


def test_whom_no_group_lets_in_gets_no_session(site: Site) -> None:
    http = site.running.client()
    refused = http.get(site.way_back(http, "eve"))
    assert refused.status_code == 403
    assert "no role" in refused.text
    assert "ragwright_session" not in http.cookies
    assert http.get("/sources").status_code == 401


def test_a_way_back_works_once_and_in_the_browser_that_began(site: Site) -> None:
    http, other = site.running.client(), site.running.client()
    address = site.way_back(http, "ann")
    assert other.get(address).status_code == 401
    begun = other.get("/login/provider")
    assert begun.status_code == 303
    assert other.get(address).status_code == 401, "the state is of another browser"
    kept = {"cookie": f"ragwright_sign_in={http.cookies['ragwright_sign_in']}"}
    assert "Signed in" in http.get(address).text
    assert other.get(address, headers=kept).status_code == 401, "it was used"
    for session in (http, other):
        expected = 200 if session is http else 401
        assert session.get("/sources").status_code == expected


@pytest.mark.parametrize(
    "change",
    [
        ("&iss=", "&iss=https%3A%2F%2Fevil.example&was="),
        ("state=", "state=x"),
        ("code=", "code=a&code="),
        ("code=", "code=x"),
        ("code=", "error=access_denied&was="),
        ("&iss=", "&was="),
    ],
)
def test_a_way_back_that_was_changed_signs_nobody_in(site: Site, change: tuple[str, str]) -> None:
    http = site.running.client()
    address = site.way_back(http, "ann").replace(*change)
    refused = http.get(address)
    assert refused.status_code in (400, 401), refused.text
    assert http.get("/sources").status_code == 401


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil", "/\t/evil.example", "https://e.x"])
def test_nobody_is_led_to_another_site(site: Site, wanted: str) -> None:
    http = site.running.client()
    begun = http.get("/login/provider", params={"next": wanted})
    page = http.get(came_back(http, begun.headers["location"], "ann"))
    assert '<a href="/">' in page.text
    assert f'value="{wanted}"' not in http.get("/login", params={"next": wanted}).text


def test_revoking_a_person_ends_every_session_of_theirs(site: Site) -> None:
    first, second, rex = (site.signed_in(login) for login in ("ann", "ann", "rex"))
    name = f"oidc:{site.issuer}#ann"
    sessions = opened_sessions(site.folder)
    of_ann = [session for session in sessions.all() if session.name == name]
    assert {session.label for session in of_ann} == {"Ann Example"}
    assert sessions.revoke(name) == len(of_ann) >= 2
    assert [http.get("/sources").status_code for http in (first, second, rex)] == [401, 401, 200]
    [of_rex] = [session for session in sessions.all() if session.name.endswith("#rex")][:1]
    sessions.revoke(of_rex.id)
    assert of_rex.id not in {session.id for session in sessions.all()}


def test_signing_out_ends_the_session_here_and_at_the_provider(site: Site) -> None:
    http = site.signed_in("ann")
    cookie = {"cookie": f"ragwright_session={http.cookies['ragwright_session']}"}
    page = http.post("/logout")
    leaving = re.search(r'<a href="([^"]+)"', page.text)
    assert leaving is not None
    assert leaving[1].startswith(f"{site.issuer}/session/end?client_id=ragwright")
    assert site.running.client().get("/sources", headers=cookie).status_code == 401


def test_the_provider_ends_sessions(site: Site) -> None:
    """Back-channel logout: by the provider's own page, which asks for a confirmation."""
    http = site.signed_in("ann")
    question = http.get(f"{site.issuer}/session/end")
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', question.text))
    http.post(f"{site.issuer}/session/end/confirm", data={**form, "logout": "yes"})
    assert http.get("/sources").status_code == 401


def test_programs_send_access_tokens_for_this_server(site: Site) -> None:
    base = site.running.address
    http = site.running.client()
    good = site.token(f"{base}/v1")
    assert http.get("/v1/models", headers=good).status_code == 200
    question = {"query": "brake fluid"}
    assert http.post("/v1/retrieve", json=question, headers=good).json()["hits"]
    assert http.get("/settings", headers=good).status_code == 403
    refused = http.get("/v1/models", headers=site.token("https://other.example"))
    assert refused.status_code == 401
    assert "another audience" in refused.json()["error"]["message"]
    assert refused.headers["www-authenticate"] == (
        f'Bearer error="invalid_token", resource_metadata="{base}/.well-known/'
        'oauth-protected-resource/v1"'
    )
    head, body, signature = good["authorization"].split(".")
    forged = {"authorization": f"{head}.{body}.{signature[:-8]}AAAAAAAA"}
    assert http.get("/v1/models", headers=forged).status_code == 401


def test_agents_learn_where_to_get_a_token(site: Site) -> None:
    base, http = site.running.address, site.running.client()
    refused = http.post("/mcp/", json={})
    place = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
    assert place is not None
    described = http.get(place[1]).json()
    assert described["resource"] == f"{base}/mcp"
    assert described["authorization_servers"] == [site.issuer]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {**site.token(f"{base}/mcp"), "accept": "application/json, text/event-stream"}
    tools = http.post("/mcp/", json=call, headers=headers).json()["result"]["tools"]
    assert "ask" in {tool["name"] for tool in tools}
    assert http.get("/.well-known/oauth-protected-resource/nothing").status_code == 404


def test_keys_work_beside_people(site: Site) -> None:
    secret = ServeKeys(ProjectFolder(site.folder)).add(ServeKey("program"))
    assert site.running.client(secret).get("/v1/models").status_code == 200
    assert site.running.client().get("/v1/models").status_code == 401
    http = site.running.client()
    http.post("/login", data={"key": secret})
    assert http.get("/sources").status_code == 200
    ServeKeys(ProjectFolder(site.folder)).revoke("program")
    assert http.get("/sources").status_code == 401


def test_a_person_signs_in_and_out_in_a_browser(browser: Any, site: Site) -> None:
    context = browser.new_context()
    page = opened(context, f"{site.running.address}/sources?find=codes", [])
    page.get_by_role("link", name="Sign in with Staff").click()
    page.locator("input[name=login]").fill("rex")
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.wait_for_url("**/sources?find=codes")
    assert page.locator("h1").inner_text() == "Sources"
    page.get_by_role("link", name="Testsets").click()
    page.wait_for_url("**/testsets")
    assert page.get_by_role("button", name="Collect").count() == 0, "a reviewer is no owner"
    [cookie] = [kept for kept in context.cookies() if kept["name"] == "ragwright_session"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    page.get_by_label("Account of Rex Example").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{site.issuer}/**")
    page.goto(f"{site.running.address}/sources")
    page.wait_for_url("**/login?next=**")
    context.close()


def test_a_new_key_of_the_provider_is_learned(site: Site) -> None:
    base, http = site.running.address, site.running.client()
    before = site.token(f"{base}/v1")
    assert http.get("/v1/models", headers=before).status_code == 200
    httpx2.get(f"{site.issuer}/rotate")
    assert http.get("/v1/models", headers=site.token(f"{base}/v1")).status_code == 200
    assert http.get("/v1/models", headers=before).status_code == 401, "its key was withdrawn"
