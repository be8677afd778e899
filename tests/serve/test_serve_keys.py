from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, RagwrightError
from ragwright.project import ProjectFolder
from ragwright.serve import ListenAddress, ServedProject, ServeKey, ServeKeys, serve
from ragwright.testing import ScriptedServer

ACME = "---\ntenant: acme\n---\n# Prices\n\nThe price of a bolt is four euros.\n"
ZETA = "---\ntenant: zeta\n---\n# Prices\n\nThe price of a bolt is nine euros.\n"
QUESTION = "What is the price of a bolt?"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)(
        "serve: {name: prices, personas: [engineer, marketing], "
        "configurations: {short: ['retrieve.top_k=1']}}\n",
        **{"acme.md": ACME, "zeta.md": ZETA},
    )
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def key(project: Path, name: str, **rights: object) -> str:
    keys = ServeKeys(ProjectFolder(project))
    return keys.add(ServeKey(name, **rights))  # type: ignore[arg-type]


def content(running: Running, secret: str, **more: object) -> str:
    reply = running.client(secret).post(
        "/v1/chat/completions",
        json={"messages": [{"role": "user", "content": QUESTION}], **more},
    )
    assert reply.status_code == 200, reply.text
    content: str = reply.json()["choices"][0]["message"]["content"]
    return content


@pytest.mark.slow
def test_a_key_is_needed_once_one_is_made_and_its_file_holds_no_key(project: Path) -> None:
    with served(project) as running:
        assert running.ask(QUESTION).status_code == 200
        secret = key(project, "reader")
        refused = running.ask(QUESTION)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert running.client("rw_wrong").get("/v1/models").status_code == 401
        assert running.client(secret).get("/v1/models").status_code == 200
        assert running.openai(secret).models.list().data
        assert running.http.get("/healthz").status_code == 200
        ServeKeys(ProjectFolder(project)).revoke("reader")
        key(project, "other")
        assert running.client(secret).get("/v1/models").status_code == 401
    for file in (project / ".ragwright").rglob("*"):
        assert file.is_dir() or secret.encode() not in file.read_bytes()
    assert stat.S_IMODE(ProjectFolder(project).ledger.stat().st_mode) == 0o600


@pytest.mark.slow
def test_filters_of_a_key_cannot_be_crossed(project: Path) -> None:
    acme = key(project, "acme", filters=("tenant=acme",))
    zeta = key(project, "zeta", filters=("tenant=zeta",))
    with served(project) as running:
        assert "four euros" in content(running, acme)
        assert "nine euros" in content(running, zeta)
        crossing = running.client(acme).post(
            "/v1/chat/completions",
            json={
                "messages": [{"role": "user", "content": QUESTION}],
                "ragwright": {"filters": ["tenant=zeta"]},
            },
        )
        assert crossing.status_code == 400
        assert "nine" not in crossing.text
        hits = running.client(zeta).post("/v1/retrieve", json={"query": QUESTION}).json()["hits"]
        assert {hit["metadata"]["tenant"] for hit in hits} == {"zeta"}
        page = running.client(zeta).get(hits[0]["url"])
        assert "nine euros" in page.text
        assert running.client(acme).get(hits[0]["url"]).status_code == 404


@pytest.mark.slow
def test_feedback_reaches_answers_of_the_own_tenant_alone(project: Path) -> None:
    acme = key(project, "acme", filters=("tenant=acme",))
    zeta = key(project, "zeta", filters=("tenant=zeta",))
    with served(project) as running:
        reply = running.client(acme).post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": QUESTION}]}
        )
        rating = {"id": reply.json()["id"], "verdict": "accepted"}
        assert running.client(zeta).post("/v1/feedback", json=rating).status_code == 404
        assert running.client(acme).post("/v1/feedback", json=rating).status_code == 200
    with Workbench.open(project) as bench:
        assert bench.outputs.count() == 0, "a tenant's outputs are not among those of nobody"
        assert bench.forget_tenant("tenant=acme")["outputs"] == 2


@pytest.mark.slow
def test_a_key_sees_its_configurations_alone(project: Path) -> None:
    secret = key(project, "short", configurations=("short",))
    with served(project) as running:
        ids = [model.id for model in running.openai(secret).models.list()]
        assert ids == ["short", "short/engineer", "short/marketing"]
        reply = running.client(secret).post(
            "/v1/retrieve", json={"query": QUESTION, "model": "short"}
        )
        assert len(reply.json()["hits"]) == 1
        other = running.client(secret).post("/v1/retrieve", json={"query": "a", "model": "prices"})
        assert other.status_code == 404


@pytest.mark.slow
def test_a_key_has_a_rate_and_is_told_when_to_come_back(project: Path) -> None:
    secret = key(project, "slow", per_minute=2)
    with served(project) as running:
        http = running.client(secret)
        states = [http.post("/v1/retrieve", json={"query": QUESTION}) for _ in range(3)]
    assert [state.status_code for state in states] in ([200, 200, 429], [200, 200, 200])
    if states[-1].status_code == 429:  # else the minute ended in between
        assert 1 <= int(states[-1].headers["retry-after"]) <= 60


@pytest.mark.slow
def test_readers_may_not_see_what_belongs_to_the_owner(project: Path) -> None:
    reader, owner = key(project, "reader"), key(project, "owner", role="owner")
    with served(project) as running:
        assert running.client(reader).get("/metrics").status_code == 403
        assert "ragwright_requests_total" in running.client(owner).get("/metrics").text


@pytest.mark.slow
def test_other_names_and_other_sites_are_refused_without_keys(project: Path) -> None:
    with served(project) as running:
        named = running.http.get("/v1/models", headers={"host": "attacker.example"})
        crossed = running.http.post(
            "/v1/retrieve", json={"query": "a"}, headers={"origin": "https://attacker.example"}
        )
    assert (named.status_code, crossed.status_code) == (421, 403)


def test_a_public_address_needs_a_key(project: Path) -> None:
    with pytest.raises(ConfigError, match="no key has been made"):
        serve(ServedProject(project), ListenAddress("0.0.0.0", 0))


def test_a_served_persona_that_does_not_exist_is_refused(project: Path) -> None:
    with pytest.raises(RagwrightError, match="unknown persona 'enginer'"):
        serve(ServedProject(project, ("serve.personas=[enginer]",)), ListenAddress("127.0.0.1", 0))


@pytest.mark.slow
def test_keys_that_cannot_be_read_let_nobody_in(project: Path) -> None:
    with served(project) as running:
        secret = key(project, "reader")
        with closing(sqlite3.connect(ProjectFolder(project).ledger)) as ledger:
            ledger.execute("DROP TABLE serve_keys")
        reply = running.client(secret).get("/v1/models")
    assert reply.status_code == 500
    assert "cannot be read" in reply.json()["error"]["message"]


@pytest.mark.slow
def test_a_daily_budget_needs_prices_and_ends_the_day(project: Path) -> None:
    secret = key(project, "app", daily_budget=0.5)
    with ScriptedServer("Four euros [1].") as model:
        named = f"{model.url}#writer"
        file = project / "ragwright.yaml"
        before = file.read_text("utf-8")
        file.write_text(f"{before}answer: {{model: '{named}'}}\n", "utf-8")
        with served(project) as running:
            free = running.client(secret).post(
                "/v1/chat/completions", json={"messages": [{"role": "user", "content": QUESTION}]}
            )
            assert free.status_code == 200, "a server on this machine without a price is free"
        priced = f"models: {{'{named}': {{price_in: 50000, price_out: 50000}}}}\n"
        file.write_text(f"{before}answer: {{model: '{named}'}}\n{priced}", "utf-8")
        with served(project) as running:
            http = running.client(secret)
            states = [
                http.post(
                    "/v1/chat/completions", json={"messages": [{"role": "user", "content": q}]}
                )
                for q in ("What is a bolt's price in euros?", "What does a bolt cost?")
            ]
    assert [state.status_code for state in states] == [200, 429]
    assert states[1].json()["error"]["code"] == "insufficient_quota"


@pytest.mark.slow
def test_a_tenant_without_documents_learns_nothing_of_the_others(project: Path) -> None:
    secret = key(project, "newco", filters=("tenant=newco",))
    with served(project) as running:
        http = running.client(secret)
        asked = http.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": QUESTION}]}
        )
        pages = [asked, http.post("/v1/retrieve", json={"query": QUESTION}), http.get("/sources")]
        pages += [http.post("/", data={"q": "a"})]
    for page in pages:
        assert "acme" not in page.text
        assert "zeta" not in page.text


@pytest.mark.slow
def test_a_server_whose_last_key_was_revoked_lets_nobody_in(project: Path) -> None:
    with served(project) as running:
        key(project, "last")
        ServeKeys(ProjectFolder(project)).revoke("last")
        assert running.http.get("/v1/models").status_code == 401


@pytest.mark.slow
def test_a_page_of_another_site_cannot_ask(project: Path) -> None:
    with served(project) as running:
        crossed = {"sec-fetch-site": "cross-site"}
        assert running.http.post("/", data={"q": "a"}, headers=crossed).status_code == 403
        assert running.http.post("/ask/stream", data={"q": "a"}, headers=crossed).status_code == 403
        cited = running.http.get("/source", params={"id": "docs/acme.md"}, headers=crossed)
        assert cited.status_code == 200, "links of chat programs keep working"
        for path in (
            "/drafts",
            "/outputs/1.1",
            "/testsets/a.jsonl/decide",
        ):
            for headers in ({"origin": "http://elsewhere.example"}, crossed):
                assert running.http.post(path, data={}, headers=headers).status_code == 403, path
        odd = running.http.post("/v1/retrieve", json={"query": "a"}, headers={"origin": "http://["})
        assert odd.status_code == 403


@pytest.mark.slow
def test_a_reader_rates_its_own_answers_alone(project: Path) -> None:
    first_key, other = key(project, "one"), key(project, "other")
    owner = key(project, "owner", role="owner")
    with served(project) as running:
        reply = running.client(first_key).post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": QUESTION}]}
        )
        name = reply.json()["id"]
        for guess in (name, "1.1"):
            rating = {"id": guess, "verdict": "rejected"}
            assert running.client(other).post("/v1/feedback", json=rating).status_code == 404
        rating = {"id": name, "verdict": "accepted"}
        assert running.client(first_key).post("/v1/feedback", json=rating).status_code == 200
        assert running.client(owner).post("/v1/feedback", json=rating).status_code == 200


def test_a_rotated_key_keeps_its_rights_and_its_former_secret_is_refused(project: Path) -> None:
    keys = ServeKeys(ProjectFolder(project))
    former = keys.add(ServeKey("acme", filters=("tenant=acme",)))
    secret = keys.rotate("acme")
    assert keys.find(former) is None
    found = keys.find(secret)
    assert found is not None
    assert found.filters == ("tenant=acme",)
    with pytest.raises(ConfigError, match="unknown key 'acne'"):
        keys.rotate("acne")


def test_the_name_of_a_revoked_key_is_given_again_only_if_asked_for(project: Path) -> None:
    keys = ServeKeys(ProjectFolder(project))
    former = keys.add(ServeKey("acme", role="owner"))
    keys.revoke("acme")
    assert keys.find(former) is None
    assert keys.named_by("revoked acme") is None
    assert keys.all() == ()
    assert keys.used
    with pytest.raises(ConfigError, match="a revoked key was named 'acme'") as error:
        keys.add(ServeKey("acme"))
    assert "--again" in str(error.value)
    with pytest.raises(ConfigError, match="unknown key 'acme'"):
        keys.rotate("acme")
    secret = keys.add(ServeKey("acme"), again=True)
    found = keys.find(secret)
    assert found is not None
    assert found.role == "reader"
    assert [key.name for key in keys.all()] == ["acme"]


def test_an_unknown_caller_learns_nothing_of_a_ledger_that_cannot_be_read(project: Path) -> None:
    secret = key(project, "acme")
    with served(project) as running:
        assert running.client(secret).get("/v1/models").status_code == 200
        data = project / ".ragwright/data"
        for file in data.glob("ledger.sqlite*"):
            file.unlink()
        (data / "ledger.sqlite").mkdir()
        for path, headers in (
            ("/v1/models", {}),
            ("/login", {}),
            ("/v1/models", {"x-api-key": "a"}),
        ):
            reply = running.http.get(path, headers=headers)
            assert str(project) not in reply.text
            assert "ledger" not in reply.text
