"""Two machines that share a ledger: keys, cookies, rates and budgets hold on both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from postgres_server import running_server
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer

pytestmark = [pytest.mark.slow, pytest.mark.needs_postgres]

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def address() -> Iterator[str]:
    with running_server() as folder:
        yield f"shared: {{address: 'postgresql://admin@/postgres?host={folder}'}}\n"


def machines(tmp_path: Path, settings: str) -> tuple[Path, Path]:
    """Two copies of a project."""
    first = MakeProject(tmp_path)(f"serve: {{name: book}}\n{settings}")
    with Workbench.open(first) as bench:
        bench.ingest()
    second = tmp_path / "second"
    shutil.copytree(first, second)
    return first, second


OPENED: list[ServeKeys] = []


def keys(folder: Path) -> ServeKeys:
    OPENED.append(ServeKeys(ProjectFolder(folder)))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def close_keys(address: str) -> Iterator[None]:
    """Close their connections to PostgreSQL before the server stops."""
    yield
    while OPENED:
        OPENED.pop().close()


def test_rights_and_rates_hold_on_both_machines(tmp_path: Path, address: str) -> None:
    here, there = machines(tmp_path, address)
    ann, slow = keys(here).add(ServeKey("ann")), keys(here).add(ServeKey("slow", per_minute=4))
    with served(here) as entry, served(there) as two:
        for running in (entry, two):
            assert running.client(ann).get("/v1/models").status_code == 200
            assert running.http.get("/v1/models").status_code == 401
        cookie = entry.client().post("/login", data={"key": ann}).headers["set-cookie"]
        signed = {"cookie": cookie.partition(";")[0]}
        assert two.client().get("/sources", headers=signed).status_code == 200
        asked = [
            running.client(slow).post("/v1/retrieve", json={"query": QUESTION}).status_code
            for _ in range(4)
            for running in (entry, two)
        ]
        assert 4 <= asked.count(200) <= 8  # more only if a minute ended in between
        assert asked.count(429) or asked.count(200) == 8
        keys(there).revoke("ann")
        for running in (entry, two):
            assert running.client(ann).get("/v1/models").status_code == 401
            assert running.client().get("/sources", headers=signed).status_code == 401


def test_a_budget_holds_over_both_machines(tmp_path: Path, address: str) -> None:
    with ScriptedServer(Reply("Every two years [1].", delay=0.2)) as model:
        name = f"{model.url}#writer"
        settings = (
            f"answer: {{model: '{name}'}}\n"
            f"models: {{'{name}': {{price_in: 1000000, price_out: 1000000}}}}\n{address}"
        )
        here, there = machines(tmp_path, settings)
        paid = keys(here).add(ServeKey("paid", daily_budget=1.0))
        with served(here) as entry, served(there) as two:

            def ask(at: int) -> int:
                running = (entry, two)[at % 2]
                body = {"messages": [{"role": "user", "content": f"{QUESTION} {at}"}]}
                sent = running.client(paid).post("/v1/chat/completions", json=body)
                return sent.status_code

            assert ask(0) == 200
            calls = len(model.requests)
            with ThreadPoolExecutor(4) as pool:
                assert {*pool.map(ask, range(1, 9))} == {429}
            assert len(model.requests) == calls, "one call has spent it, on both machines"


def test_requests_under_way_hold_money_on_both_machines(tmp_path: Path, address: str) -> None:
    """A call costs a third of what is left: of eight that begin at once, not all go on."""
    with ScriptedServer(Reply("Every two years [1].", delay=1.5)) as model:
        name = f"{model.url}#writer"
        settings = (
            f"answer: {{model: '{name}'}}\n"
            f"models: {{'{name}': {{price_in: 1000000, price_out: 1000000}}}}\n{address}"
        )
        here, there = machines(tmp_path, settings)
        probe = keys(here).add(ServeKey("paid", daily_budget=1e9))
        with served(here) as entry, served(there) as two:

            def ask(at: int, secret: str) -> int:
                running = (entry, two)[at % 2]
                body = {"messages": [{"role": "user", "content": f"{QUESTION} {at}"}]}
                return running.client(secret).post("/v1/chat/completions", json=body).status_code

            assert ask(0, probe) == 200
            with Workbench.open(here) as bench:
                [cost] = [batch.usage.cost for batch in [bench.outputs.batch(1)]]
            assert cost
            keys(here).revoke("paid")
            paid = keys(here).add(ServeKey("paid", daily_budget=3.5 * cost), again=True)
            with ThreadPoolExecutor(8) as pool:
                states = list(pool.map(lambda at: ask(at, paid), range(1, 9)))
        assert states.count(429) >= 5
        assert 2 <= states.count(200) <= 3


def test_keys_from_before_are_not_forgotten_by_sharing(tmp_path: Path, address: str) -> None:
    """A project whose keys are in its folder stays closed, until they are made again."""
    folder = MakeProject(tmp_path)("serve: {name: book}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    before = keys(folder).add(ServeKey("before"))
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\nserve: {{name: book}}\n{address}")
    assert keys(folder).used
    assert keys(folder).left_behind == ("before",)
    with served(folder) as running:
        assert running.http.get("/v1/models").status_code == 401
        assert running.client(before).get("/v1/models").status_code == 401
        again = keys(folder).add(ServeKey("before"))
        assert running.client(again).get("/v1/models").status_code == 200
    assert keys(folder).left_behind == ()
    keys(folder).revoke("before")
    assert keys(folder).used
