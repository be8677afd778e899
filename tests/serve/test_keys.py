"""Keys: who may ask, under which filters, how much, on one machine and on two."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from served import Running, asks, key, served, written_by
from small_project import QUESTION as FLUID, ingested
from waiting import at_once

from ragwright import Workbench
from ragwright.core import ConfigError, StoreError
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

TEXTS = {
    f"{tenant}.md": f"---\ntenant: {tenant}\n---\n# Prices\n\nThe price of a bolt is {n} euros.\n"
    for tenant, n in (("acme", "four"), ("zeta", "nine"))
}
QUESTION = "What is the price of a bolt?"
SETTINGS = (
    "serve: {name: prices, personas: [engineer, marketing], "
    "configurations: {short: ['retrieve.top_k=1']}}\n"
)
ACME, ZETA = {"filters": ("tenant=acme",)}, {"filters": ("tenant=zeta",)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = ingested(tmp_path_factory.mktemp("keys"), SETTINGS, **TEXTS)
    key(folder, "first")
    with served(folder) as server:
        yield server


def found(running: Running, secret: str, **more: Any) -> Any:
    body = {"query": QUESTION, **more}
    return running.client(secret).post("/v1/retrieve", json=body).json()["hits"]


def test_a_key_is_needed_once_one_is_made_and_its_file_holds_no_key(tmp_path: Path) -> None:
    folder = ingested(tmp_path, SETTINGS, **TEXTS)
    keys = ServeKeys(ProjectFolder(folder))
    with served(folder) as running:
        assert running.ask(QUESTION).status_code == 200
        secret = key(folder, "reader")
        refused = running.ask(QUESTION)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert running.client("rw_wrong").get("/v1/models").status_code == 401
        assert running.client(secret).get("/v1/models").status_code == 200
        assert running.openai(secret).models.list().data
        assert running.http.get("/healthz").status_code == 200
        keys.revoke("reader")
        assert running.client(secret).get("/v1/models").status_code == 401
    for file in (folder / ".ragwright").rglob("*"):
        assert file.is_dir() or secret.encode() not in file.read_bytes()
    assert stat.S_IMODE(ProjectFolder(folder).ledger.stat().st_mode) == 0o600


def test_a_server_whose_last_key_was_revoked_lets_nobody_in(tmp_path: Path) -> None:
    folder = ingested(tmp_path, SETTINGS, **TEXTS)
    with served(folder) as running:
        key(folder, "last")
        ServeKeys(ProjectFolder(folder)).revoke("last")
        assert running.http.get("/v1/models").status_code == 401
        secret = key(folder, "again")
        assert running.client(secret).get("/v1/models").status_code == 200
        data = folder / ".ragwright/data"
        for file in data.glob("ledger.sqlite*"):
            file.unlink()
        (data / "ledger.sqlite").mkdir()
        for path, headers in (
            ("/v1/models", {}),
            ("/login", {}),
            ("/v1/models", {"x-api-key": "a"}),
        ):
            reply = running.http.get(path, headers=headers)
            assert str(folder) not in reply.text
            assert "ledger" not in reply.text
    with pytest.raises(StoreError) as error:
        ServeKeys(ProjectFolder(folder)).add(ServeKey("app"))
    assert error.value.where == str(data / "ledger.sqlite")


def test_keys_that_cannot_be_read_let_nobody_in(tmp_path: Path) -> None:
    folder = ingested(tmp_path, SETTINGS, **TEXTS)
    secret = key(folder, "reader")
    with served(folder) as running:
        with closing(sqlite3.connect(ProjectFolder(folder).ledger)) as ledger:
            ledger.execute("DROP TABLE serve_keys")
        reply = running.client(secret).get("/v1/models")
    assert reply.status_code == 500
    assert "cannot be read" in reply.json()["error"]["message"]


@pytest.mark.slow
def test_filters_of_a_key_cannot_be_crossed(running: Running) -> None:
    acme, zeta = key(running.folder, "acme1", **ACME), key(running.folder, "zeta1", **ZETA)
    assert "four euros" in running.ask(QUESTION, key=acme).text
    assert "nine euros" in running.ask(QUESTION, key=zeta).text
    crossing = running.ask(QUESTION, key=acme, ragwright={"filters": ["tenant=zeta"]})
    assert crossing.status_code == 400
    assert "nine" not in crossing.text
    hits = found(running, zeta)
    assert {hit["metadata"]["tenant"] for hit in hits} == {"zeta"}
    assert "nine euros" in running.client(zeta).get(hits[0]["url"]).text
    assert running.client(acme).get(hits[0]["url"]).status_code == 404


@pytest.mark.slow
def test_a_tenant_without_documents_learns_nothing_of_the_others(running: Running) -> None:
    http = running.client(key(running.folder, "newco", filters=("tenant=newco",)))
    pages = [http.post("/v1/chat/completions", json=asks(QUESTION)), http.get("/sources")]
    pages += [http.post("/v1/retrieve", json={"query": QUESTION}), http.post("/", data={"q": "a"})]
    for page in pages:
        assert "acme" not in page.text
        assert "zeta" not in page.text


def rated(running: Running, secret: str, name: str) -> int:
    rating = {"id": name, "verdict": "accepted"}
    return running.client(secret).post("/v1/feedback", json=rating).status_code


def test_feedback_reaches_answers_of_the_own_tenant_alone(running: Running) -> None:
    acme, zeta = key(running.folder, "acme2", **ACME), key(running.folder, "zeta2", **ZETA)
    with Workbench.open(running.folder) as bench:
        before = bench.outputs.count()
        name = running.ask(QUESTION, key=acme).json()["id"]
        assert rated(running, zeta, name) == 404
        assert rated(running, acme, name) == 200
        assert bench.outputs.count() == before, "a tenant's outputs are not those of nobody"
        assert bench.forget_tenant("tenant=acme")["outputs"] >= 2


def test_a_reader_rates_its_own_answers_alone(running: Running) -> None:
    one, other = key(running.folder, "one"), key(running.folder, "other")
    name = running.ask(QUESTION, key=one).json()["id"]
    assert [rated(running, other, guess) for guess in (name, "1.1")] == [404, 404]
    assert rated(running, one, name) == 200
    assert rated(running, key(running.folder, "owner2", "owner"), name) == 200


def test_a_key_sees_its_configurations_alone(running: Running) -> None:
    secret = key(running.folder, "short", configurations=("short",))
    ids = [model.id for model in running.openai(secret).models.list()]
    assert ids == ["short", "short/engineer", "short/marketing"]
    assert len(found(running, secret, model="short")) == 1
    body = {"query": "a", "model": "prices"}
    assert running.client(secret).post("/v1/retrieve", json=body).status_code == 404


def test_readers_may_not_see_what_belongs_to_the_owner(running: Running) -> None:
    reader, owner = key(running.folder, "reader"), key(running.folder, "owner1", "owner")
    assert running.client(reader).get("/metrics").status_code == 403
    assert "ragwright_requests_total" in running.client(owner).get("/metrics").text


def test_scopes_of_filters_do_not_collide() -> None:
    sets = (("a=1", "b=2"), ("a=1 and b=2",), ('["a=1", "b=2"]=x',), ("tenant=acme",))
    scopes = [ServeKey("a", filters=filters).scope for filters in sets]
    assert len(set(scopes)) == 4
    assert scopes[3] == "tenant=acme"
    assert ServeKey("b", filters=("b=2", "a=1")).scope == scopes[0]


def test_a_key_is_rotated_revoked_and_its_name_given_again_only_if_asked_for(
    tmp_path: Path,
) -> None:
    folder = ingested(tmp_path, SETTINGS, **TEXTS)
    keys = ServeKeys(ProjectFolder(folder))
    former = keys.add(ServeKey("acme", "owner"))
    secret = keys.rotate("acme")
    assert keys.find(former) is None
    rotated = keys.find(secret)
    assert rotated is not None
    assert rotated.role == "owner", "it keeps its rights"
    with pytest.raises(ConfigError, match="unknown key 'acne'"):
        keys.rotate("acne")
    keys.revoke("acme")
    assert keys.find(secret) is None
    assert keys.named_by("revoked acme") is None
    assert (keys.all(), keys.used) == ((), True)
    with pytest.raises(ConfigError, match="a revoked key was named 'acme'") as error:
        keys.add(ServeKey("acme"))
    assert "--again" in str(error.value)
    with pytest.raises(ConfigError, match="unknown key 'acme'"):
        keys.rotate("acme")
    again = keys.find(keys.add(ServeKey("acme"), again=True))
    assert again is not None
    assert again.role == "reader"
    assert [known.name for known in keys.all()] == ["acme"]


@pytest.mark.parametrize("name", ["", " ", "a|b", "a=b", "x" * 101, "\u202ehr"])
def test_odd_names_of_groups_are_refused(running: Running, name: str) -> None:
    with pytest.raises(ConfigError, match="group"):
        key(running.folder, "odd", groups=(name,))


def test_no_key_is_named_like_a_person(running: Running) -> None:
    with pytest.raises(ConfigError, match="names of people"):
        key(running.folder, "proxy:ann")


def test_impossible_rights_change_nothing(tmp_path: Path) -> None:
    folder = ingested(tmp_path, SETTINGS, **TEXTS)
    key(folder, "reader", groups=("hr",))
    key(folder, "tenant", filters=("document_id=docs/acme.md",))
    keys = ServeKeys(ProjectFolder(folder))
    before = keys.all()
    for words, refusal in (
        (("reader",), "nothing to change"),
        (("reeder", "--groups", "hr"), "did you mean reader"),
        (("reader", "--groups", "a|b"), "group"),
        (("reader", "--daily-budget", "-1"), "must be above 0"),
        (("tenant", "--role", "owner"), "takes no filters"),
    ):
        assert refusal in ragwright(folder, "keys", "change", *words, code=1).stderr
        assert keys.all() == before


def test_rights_of_a_key_are_changed_without_a_new_secret(tmp_path: Path) -> None:
    texts = {
        f"{group}.md": f"---\ngroups: [{group}]\n---\n# Plan\n\nThe door code is {word}.\n"
        for group, word in (("hr", "MAGNOLIA"), ("board", "QUARTZ"))
    }
    folder = ingested(tmp_path, "", **texts)
    secret = key(folder, "reader", groups=("hr",))
    with served(folder) as running:
        client, pages = running.client(secret), running.client()
        pages.post("/login", data={"key": secret})

        def seen() -> tuple[bool, bool, bool]:
            sent = client.post("/v1/retrieve", json={"query": "What is the door code?"})
            assert sent.status_code == 200, sent.text
            listed = "board.md" in pages.get("/sources").text
            return "MAGNOLIA" in sent.text, "QUARTZ" in sent.text, listed

        assert seen() == (True, False, False)
        for words, expected in (
            (("--groups", "board"), (False, True, True)),
            (("--per-minute", "500"), (False, True, True)),
            (("--groups", ""), (False, False, False)),
            (("--role", "owner"), (True, True, True)),
        ):
            ragwright(folder, "keys", "change", "reader", *words)
            assert seen() == expected
    [listed] = json.loads(ragwright(folder, "keys", "list", "--json").stdout)["keys"]
    assert (listed["role"], listed["per_minute"], listed["groups"]) == ("owner", 500, [])
    events = json.loads(ragwright(folder, "log", "--kind", "changed", "--json").stdout)["events"]
    changes = [(e["action"], e["subject"]) for e in events if e["action"].startswith("keys")]
    assert changes == [("keys change", "reader")] * 4


# -- two machines that share a ledger ------------------------------------------------------------

SCHEMAS = count()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Connections to PostgreSQL that are closed before it stops."""
    with ExitStack() as stack:
        yield stack


def shared(postgres: str) -> str:
    """Settings of a shared ledger that nobody has used."""
    where = f"postgresql://admin@/postgres?host={postgres}"
    return f"shared: {{address: '{where}', schema: keys{next(SCHEMAS)}}}\n"


def keys_of(opened: ExitStack, folder: Path) -> ServeKeys:
    return opened.enter_context(closing(ServeKeys(ProjectFolder(folder))))


def machines(tmp_path: Path, settings: str) -> tuple[Path, Path]:
    first = ingested(tmp_path, f"serve: {{name: book}}\n{settings}")
    return first, shutil.copytree(first, tmp_path / "second")


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_rights_and_rates_hold_on_both_machines(
    tmp_path: Path, postgres: str, opened: ExitStack
) -> None:
    here, there = machines(tmp_path, shared(postgres))
    keys = keys_of(opened, here)
    ann, slow = keys.add(ServeKey("ann")), keys.add(ServeKey("slow", per_minute=4))
    with served(here) as one, served(there) as two:
        for running in (one, two):
            assert running.client(ann).get("/v1/models").status_code == 200
            assert running.http.get("/v1/models").status_code == 401
        cookie = one.client().post("/login", data={"key": ann}).headers["set-cookie"]
        signed = {"cookie": cookie.partition(";")[0]}
        assert two.client().get("/sources", headers=signed).status_code == 200
        states = [
            running.client(slow).post("/v1/retrieve", json={"query": FLUID}).status_code
            for _ in range(4)
            for running in (one, two)
        ]
        assert 4 <= states.count(200) <= 8  # more only if a minute ended in between
        assert states.count(429) or states.count(200) == 8
        keys_of(opened, there).revoke("ann")
        for running in (one, two):
            assert running.client(ann).get("/v1/models").status_code == 401
            assert running.client().get("/sources", headers=signed).status_code == 401


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_a_budget_holds_over_both_machines(
    tmp_path: Path, postgres: str, opened: ExitStack
) -> None:
    with ScriptedServer(Reply("Every two years [1].", delay=0.2)) as model:
        price = "price_in: 1000000, price_out: 1000000"
        settings = f"{written_by(model)}models: {{'{model.url}#writer': {{{price}}}}}\n"
        here, there = machines(tmp_path, settings + shared(postgres))
        keys = keys_of(opened, here)
        with served(here) as one, served(there) as two:

            def ask(at: int, secret: str) -> int:
                running = (one, two)[at % 2]
                return running.ask(f"{FLUID} {secret[-4:]} {at}", key=secret).status_code

            spent = keys.add(ServeKey("spent", daily_budget=1.0))
            assert ask(0, spent) == 200
            calls = len(model.requests)
            with ThreadPoolExecutor(4) as pool:
                assert {*pool.map(lambda at: ask(at, spent), range(1, 9))} == {429}
            assert len(model.requests) == calls
            with Workbench.open(here) as bench:
                cost = bench.outputs.batch(1).usage.cost
            assert cost
            model.play(Reply("Every two years [1].", delay=1.5))
            paid = keys.add(ServeKey("paid", daily_budget=3.5 * cost))
            assert ask(0, paid) == 200, "its cost is known"
            states = at_once(8, lambda at: ask(at + 1, paid))
        assert states.count(429) >= 5
        assert 2 <= states.count(200) <= 3


@pytest.mark.slow
@pytest.mark.needs_postgres
def test_keys_from_before_are_not_forgotten_by_sharing(
    tmp_path: Path, postgres: str, opened: ExitStack
) -> None:
    folder = ingested(tmp_path, "serve: {name: book}\n")
    before = key(folder, "before")
    settings = f"sources: [docs/]\nserve: {{name: book}}\n{shared(postgres)}"
    (folder / "ragwright.yaml").write_text(settings)
    keys = keys_of(opened, folder)
    assert keys.used
    assert keys.left_behind == ("before",)
    with served(folder) as running:
        assert running.http.get("/v1/models").status_code == 401
        assert running.client(before).get("/v1/models").status_code == 401
        again = keys.add(ServeKey("before"))
        assert running.client(again).get("/v1/models").status_code == 200
    assert keys_of(opened, folder).left_behind == ()
    keys.revoke("before")
    assert keys_of(opened, folder).used
