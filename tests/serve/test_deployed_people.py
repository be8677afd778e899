"""The people of ``deploy/`` sign in at a real provider: what each of them sees, by every client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent import with_tools
from browsing import opened
from identity_provider import access_token, free_port, identity_provider
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.drafting import OutputQuery

pytestmark = [pytest.mark.slow, pytest.mark.needs_npm]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
REALM = DEPLOY / "keycloak" / "ragwright-realm.json"
USERS: list[dict[str, Any]] = json.loads(REALM.read_text("utf-8"))["users"]
GROUPS = {user["username"]: user["groups"][0].removeprefix("/") for user in USERS}
NAMES = {user["username"]: f"{user['firstName']} {user['lastName']}" for user in USERS}

TEXTS = {
    "engineering": "# Press\n\nThe hydraulic press must be oiled every 40 hours.\n",
    "sales": "# Price list\n\nResellers get a discount of 17 percent on spare parts.\n",
    "board": "# Minutes\n\nThe board will close the plant of Lille in March.\n",
}
QUESTIONS = {
    "engineering": "How often must the hydraulic press be oiled?",
    "sales": "What discount do resellers get on spare parts?",
    "board": "Which plant will the board close?",
}
SECRETS = {"engineering": "40 hours", "sales": "17 percent", "board": "Lille"}


@dataclass(frozen=True)
class Site:
    """The server of ``deploy/compose.people.yaml``, without containers.

    Attributes:
        folder: The project.
        issuer: The identity provider.
        running: The server.
        owners: Groups whose people are owners.
        tokens: Access tokens by login name.
    """

    folder: Path
    issuer: str
    running: Running
    owners: frozenset[str]
    tokens: Mapping[str, str]

    def visible(self, login: str) -> set[str]:
        """The groups whose documents a person may see; owners see all."""
        group = GROUPS[login]
        return set(TEXTS) if group in self.owners else {group}


def deployed_settings(address: str, issuer: str) -> dict[str, str]:
    """The settings of ``serve`` in the compose file, at addresses that are free here."""
    compose = yaml.safe_load((DEPLOY / "compose.people.yaml").read_text("utf-8"))
    words = [word for word in compose["services"]["serve"]["command"] if "--set=" in word]
    settings = dict(word.removeprefix("--set=").split("=", 1) for word in words)
    del settings["shared.address"]
    moved = {settings["serve.public_url"]: address, settings["serve.sign_in.issuer"]: issuer}
    for old, new in moved.items():
        settings = {key: value.replace(old, new) for key, value in settings.items()}
    return settings


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with identity_provider(address, REALM) as issuer:
        settings = deployed_settings(address, issuer)
        folder = MakeProject(tmp_path_factory.mktemp("deployed"))(
            "groups: {rules: [{match: 'documents/engineering/**', groups: [engineering]},\n"
            "  {match: 'documents/sales/**', groups: [sales]},\n"
            "  {match: 'documents/board/**', groups: [board]}]}\n",
        )
        (folder / "docs").rename(folder / "documents")
        for group, text in TEXTS.items():
            (folder / "documents" / group).mkdir()
            (folder / "documents" / group / "notes.md").write_text(text, "utf-8")
        file = folder / "ragwright.yaml"
        file.write_text(file.read_text("utf-8").replace("docs/", "documents/"), "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
        overrides = [f"{key}={value}" for key, value in settings.items()]
        with served(folder, *overrides, port=port) as running:
            [audience] = yaml.safe_load(settings["serve.sign_in.audiences"])
            owners = yaml.safe_load(settings["serve.people.roles"])["owner"]
            tokens = {login: access_token(issuer, audience, login) for login in GROUPS}
            yield Site(folder, issuer, running, frozenset(owners), tokens)


def answer_of(page: Any, question: str) -> str:
    """Ask in a new conversation; all that the page then shows."""
    page.get_by_role("link", name="Ask", exact=True).click()
    page.fill("#q", question)
    page.press("#q", "Enter")
    page.wait_for_selector(".turn .feedback", timeout=20_000)
    page.wait_for_selector("#turns[aria-busy=false]")
    page.wait_for_selector(".why")
    shown: str = page.locator("body").text_content()
    return shown


def correct(page: Any, correction: str) -> None:
    """Correct the answer that the page shows."""
    page.get_by_text("Correct it").click()
    page.get_by_label("The answer as it should be").fill(correction)
    page.locator("input[name=passages]").first.check()
    page.get_by_role("button", name="Send").click()
    page.get_by_text("Stored, thank you.").wait_for()


def upload(page: Any, name: str, text: str) -> None:
    """Upload a file on the page of sources, and wait until it is read."""
    page.get_by_role("link", name="Sources").click()
    page.get_by_text("Add sources").click()
    page.set_input_files(
        "#files", {"name": name, "mimeType": "text/markdown", "buffer": text.encode()}
    )
    page.get_by_role("button", name="Upload and read").click()
    page.get_by_text("1 added").wait_for(timeout=20_000)


def refused_upload(page: Any) -> int:
    """The status of an upload that a script of the page sends; the page has no form for it."""
    page.get_by_role("link", name="Sources").click()
    assert page.get_by_text("Add sources").count() == 0
    status: int = page.evaluate(
        """async () => { const form = new FormData();
        form.append("files", new File(["# Own"], "own.md"));
        return (await fetch("/sources/upload", { method: "POST", body: form })).status; }"""
    )
    return status


def sign_in(page: Any, login: str) -> None:
    page.get_by_role("link", name="Sign in with").click()
    page.locator("input[name=login]").fill(login)
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.wait_for_selector("#q")


def test_three_people_ask_correct_and_upload_and_see_only_theirs(browser: Any, site: Site) -> None:
    assert set(GROUPS.values()) == set(TEXTS)
    for login, group in GROUPS.items():
        faults: list[str] = []
        context = browser.new_context()
        page = opened(context, f"{site.running.address}/login", faults)
        sign_in(page, login)
        faults.clear()  # what the provider's own pages wish for
        hidden = sorted(set(TEXTS) - site.visible(login))[:1]
        for other in hidden:
            shown = answer_of(page, QUESTIONS[other])
            assert SECRETS[other] not in shown
            assert f"documents/{other}" not in page.content()
        assert SECRETS[group] in answer_of(page, QUESTIONS[group])
        page.locator(".answer a.mark").first.click()
        assert SECRETS[group] in page.locator("#beside mark").inner_text()
        page.keyboard.press("Escape")
        correct(page, f"{login} says: {SECRETS[group]}")
        if group in site.owners:
            upload(page, "tyres.md", "# Tyres\n\nThe tyres must be changed every six years.\n")
            answers = (answer_of(page, "When must the tyres be changed?") for _ in range(5))
            assert any("six years" in shown for shown in answers)
        else:
            assert refused_upload(page) == 403
            assert [fault for fault in faults if "403" not in fault] == []
        page.get_by_role("link", name="Sources").click()
        rows = page.locator("tbody").inner_text()
        assert {name for name in TEXTS if f"documents/{name}/" in rows} == site.visible(login)
        assert "documents/service.md" in rows
        page.goto(f"{site.running.address}/history")
        listed = page.locator(".talks li > a").all_inner_texts()
        questions = [QUESTIONS[name] for name in (group, *hidden)]
        questions += ["When must the tyres be changed?"] * (len(listed) - len(questions))
        assert sorted(listed) == sorted(questions)
        page.get_by_label(f"Account of {NAMES[login]}").click()
        page.get_by_role("button", name="Sign out").click()
        page.goto(f"{site.running.address}/sources")
        page.wait_for_url("**/login?next=**")
        context.close()
    with Workbench.open(site.folder) as bench:
        outputs = bench.outputs.find(OutputQuery(scope=None))
        votes = [vote for output in outputs for vote in bench.outputs.feedback(output.id)]
    assert {vote.by: (vote.correction, vote.passages) for vote in votes} == {
        f"oidc:{site.issuer}#{login}": (f"{login} says: {SECRETS[group]}", (1,))
        for login, group in GROUPS.items()
    }


def by_chat_program(site: Site, token: str, question: str) -> str:
    completion = site.running.openai(token).chat.completions.create(
        model=site.running.client(token).get("/v1/models").json()["data"][0]["id"],
        messages=[{"role": "user", "content": question}],
    )
    return completion.model_dump_json()


def by_agent(site: Site, token: str, question: str) -> str:
    async def ask(client: Any) -> str:
        reply = await client.call_tool("ask", {"question": question})
        assert not reply.is_error
        return json.dumps(reply.structured_content)

    with ThreadPoolExecutor(1) as pool:  # Playwright runs an event loop in this thread
        reply: str = pool.submit(with_tools, site.running, ask, token).result()
    return reply


def by_dify(site: Site, token: str, question: str) -> str:
    http = site.running.client(token)
    name = http.get("/v1/models").json()["data"][0]["id"]
    body = {
        "knowledge_id": name,
        "query": question,
        "retrieval_setting": {"top_k": 3, "score_threshold": 0.0},
    }
    reply = http.post("/retrieval", json=body)
    assert reply.status_code == 200, reply.text
    return reply.text


@pytest.mark.parametrize("client", [by_chat_program, by_agent, by_dify])
def test_programs_of_a_person_reach_the_same_documents(site: Site, client: Any) -> None:
    for login in GROUPS:
        for group, question in QUESTIONS.items():
            reply = client(site, site.tokens[login], question)
            allowed = group in site.visible(login)
            assert (SECRETS[group] in reply) == allowed
            assert (f"documents/{group}/notes.md" in reply) == allowed
