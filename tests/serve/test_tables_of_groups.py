"""Questions to spreadsheets and databases, answered over the tables that a reader may see."""

from __future__ import annotations

import html
import itertools
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Running, served
from test_reader_groups import key

from ragwright import Workbench
from ragwright.testing import Reply, ScriptedServer, ServerRequest

TABLES = {
    "orders.csv": "Order,Region,Amount (EUR)\nA1,North,120\nA2,South,80\n",
    "hr/pay.csv": "Person,Office,Salary (EUR)\nAda,Berlin,5101\nBo,Berlin,4202\n",
    "board/pay.csv": "Person,Office,Bonus (EUR)\nQuinn,Oslo,90001\nRay,Oslo,80002\n",
}
HIDDEN = ("5101", "9303", "Salary", "Ada", "Quinn", "90001", "170003", "Oslo", "Bonus", "pay")
ASKS_STATEMENT = "SELECT statement that fetches"
"""Words of the prompt for a statement."""
PROJECT = """\
sources: [docs/]
groups: {{rules: [{{match: hr, groups: [hr]}}, {{match: board, groups: [board]}}]}}
{more}
"""


def project(folder: Path, more: str = "") -> Path:
    """A project with a table for everyone, one for hr, one of the same name for the board."""
    for name, text in TABLES.items():
        file = folder / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (folder / "ragwright.yaml").write_text(PROJECT.format(more=more), "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def keys(folder: Path) -> dict[str, str]:
    """A key of each group, of none and of all, and one of an owner."""
    groups = {"nobody": (), "hr": ("hr",), "board": ("board",), "both": ("hr", "board")}
    made = {name: key(folder, name, *named) for name, named in groups.items()}
    return made | {"owner": key(folder, "owner", role="owner")}


def asked(running: Running, secret: str, question: str) -> tuple[str, str]:
    """The answer, and all that came with it."""
    body = {"messages": [{"role": "user", "content": question}]}
    reply = running.client(secret).post("/v1/chat/completions", json=body)
    return reply.json()["choices"][0]["message"]["content"], f"{dict(reply.headers)} {reply.text}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    folder = project(tmp_path_factory.mktemp("tables"))
    made = keys(folder)
    with served(folder) as running:
        yield running, made


@pytest.mark.parametrize(
    ("question", "by", "part"),
    [
        ("What is the total amount?", ("nobody", "hr", "board", "both", "owner"), "is 200 EUR"),
        ("What is the total salary?", ("hr", "both", "owner"), "is 9303 EUR"),
        ("What is the total bonus?", ("board", "both", "owner"), "is 170003 EUR"),
        ("How many persons have the office Oslo?", ("board",), "2 rows"),
    ],
)
def test_readers_get_answers_from_their_tables(
    site: tuple[Running, dict[str, str]], question: str, by: tuple[str, ...], part: str
) -> None:
    running, made = site
    for name in by:
        assert part in asked(running, made[name], question)[0], name


def test_of_two_tables_that_fit_only_those_of_the_reader_count(
    site: tuple[Running, dict[str, str]],
) -> None:
    """One who sees both tables has to name one; the others are not told that there are two."""
    running, made = site
    question = "How many different offices are there?"
    assert "1 different value" in asked(running, made["hr"], question)[0]
    assert "1 different value" in asked(running, made["board"], question)[0]
    assert "1 different value" not in asked(running, made["both"], question)[0]


@pytest.mark.parametrize(
    "question",
    [
        "What is the total salary?",
        "What is the total bonus of Quinn?",
        "How many rows of pay have the office Oslo?",
        "What is the highest salary in dollars?",
        "Which pay table has the most persons?",
    ],
)
def test_a_hidden_table_is_as_if_it_did_not_exist(
    site: tuple[Running, dict[str, str]], tmp_path: Path, question: str
) -> None:
    """Text, notes, route and citations are those of a project without it."""
    running, made = site
    alone = tmp_path / "alone"
    (alone / "docs").mkdir(parents=True)
    (alone / "docs/orders.csv").write_text(TABLES["orders.csv"], "utf-8")
    (alone / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
    with Workbench.open(alone) as bench:
        bench.ingest()
        expected = bench.ask(question)
    body = {"messages": [{"role": "user", "content": question}]}
    reply = running.client(made["nobody"]).post("/v1/chat/completions", json=body).json()
    more = reply["ragwright"]
    assert reply["choices"][0]["message"]["content"] == expected.text
    assert (more["route"], more["citations"], more["closest"]) == (expected.route, [], [])
    notes = [note.removesuffix(" under these filters") for note in more["notes"]]
    assert notes == [*expected.notes]


def test_names_of_tables_tell_of_no_other_table(
    site: tuple[Running, dict[str, str]],
) -> None:
    """Two groups have a ``pay.csv``; neither of the names in SQL is numbered."""
    running, made = site
    for name, question in (
        ("hr", "What is the total salary?"),
        ("board", "What is the total bonus?"),
    ):
        _, everything = asked(running, made[name], question)
        [table] = set(re.findall(r'FROM \\+"(pay\w*)\\+"', everything))
        assert re.fullmatch(r"pay_[0-9a-f]{8}", table)


def test_a_model_writes_statements_on_the_tables_of_its_reader_alone(tmp_path: Path) -> None:
    """It sees no other table, and a statement on one fails as on a table that does not exist."""
    statements: list[str] = []
    prompts: list[str] = []

    def script(request: ServerRequest) -> Reply:
        body = json.dumps(request.body)
        if ASKS_STATEMENT in body:
            prompts.append(json.dumps(request.body["messages"][:2]))  # without its own statement
            return Reply(json.dumps({"statement": statements[0]}))
        return Reply("1. " + body)

    with ScriptedServer(script) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}")
        names = _table_names(folder)
        made = keys(folder)
        number = itertools.count(100)

        def with_statement(statement: str, name: str = "nobody") -> str:
            """The reply where a model writes this statement; a new question, so that it does."""
            statements[:] = [statement]
            question = f"Which orders earned well in the region {next(number)}?"
            _, everything = asked(running, made[name], question)
            return re.sub(r"region \d+|\b1\d\d\b", "", everything)

        with served(folder) as running:
            shown = {}
            for table in (names["board/pay.csv"], "pay_00000000"):
                for column in ("*", '"Bonus"'):
                    everything = with_statement(f"SELECT {column} FROM {table}")
                    shown[table, column] = _steady(everything, table)
                    assert "no such table" in everything
            for form in (
                "SELECT name FROM sqlite_master",
                "SELECT * FROM _values, orders",
                'SELECT "Order" FROM orders WHERE (SELECT count(*) FROM "{board}") > 0',
                "SELECT * FROM pragma_table_list, orders",
            ):
                everything = with_statement(form.format(board=names["board/pay.csv"]))
                held = [word for word in HIDDEN[:-2] if word in everything]
                assert not held, (form, everything)
            assert not [word for prompt in prompts for word in HIDDEN[:-1] if word in prompt]
            own = with_statement('SELECT "Order" FROM orders WHERE "Region" = \'North\'')
            assert "A1" in own
            total = f'SELECT sum("Bonus") FROM {names["board/pay.csv"]}'
            assert "170003" in with_statement(total, "board")
    for column in ("*", '"Bonus"'):
        [same] = {text for (_, c), text in shown.items() if c == column}
        assert same


def _steady(text: str, table: str) -> str:
    """A reply without what differs between two equal requests."""
    text = text.replace(table, "TABLE")
    return re.sub(r"(chatcmpl|resp|req)[\w-]+|\"created\": ?\d+|'[\w-]+': '[^']*'", "", text)


def _table_names(folder: Path) -> dict[str, str]:
    with sqlite3.connect(folder / ".ragwright/data/sheets.sqlite") as connection:
        listed = connection.execute("SELECT document, name FROM _tables").fetchall()
    connection.close()
    return {document.removeprefix("docs/"): name for document, name in listed}


def test_a_table_that_is_closed_is_closed_at_the_next_ingest(tmp_path: Path) -> None:
    """Groups of the file change, and its text does not."""
    folder = project(tmp_path)
    secret = keys(folder)["hr"]
    with served(folder) as running:
        assert "9303" in asked(running, secret, "What is the total salary?")[0]
        (folder / "ragwright.yaml").write_text(
            PROJECT.format(more="").replace("match: hr, groups: [hr]", "match: hr, groups: [board]")
        )
        with Workbench.open(folder) as bench:
            assert bench.ingest().counts.changed == 1
        assert "9303" not in asked(running, secret, "What is the total salary?")[1]


def test_tables_of_a_file_that_names_no_groups_are_the_owners_alone(tmp_path: Path) -> None:
    """A file from before groups is written anew by the next ingest."""
    folder = project(tmp_path)
    made = keys(folder)
    with sqlite3.connect(folder / ".ragwright/data/sheets.sqlite") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    question = "What is the total amount?"
    with served(folder) as running:
        assert "200 EUR" in asked(running, made["owner"], question)[0]
        assert "200 EUR" not in asked(running, made["both"], question)[0]
        with Workbench.open(folder) as bench:
            bench.ingest()
        assert "200 EUR" in asked(running, made["both"], question)[0]


def shop(folder: Path) -> None:
    """Two databases."""
    for name, value in (("till", 31), ("vault", 77001)):
        with sqlite3.connect(folder / f"{name}.db") as connection:
            connection.execute(f"CREATE TABLE {name}_sales (item TEXT, price INTEGER)")
            connection.execute(f"INSERT INTO {name}_sales VALUES ('thing', {value})")
        connection.close()


DATABASES = """\
answer: {{model: '{model}#writer'}}
retrieve:
  route: {{method: rules}}
  databases:
    - {{name: till, address: 'sqlite:///till.db'}}
    - {{name: vault, address: 'sqlite:///vault.db', groups: [{groups}]}}
"""


def test_a_database_is_asked_for_readers_of_its_groups(tmp_path: Path) -> None:
    """Also where no document names groups; a change of its groups holds while it is served."""

    def script(request: ServerRequest) -> Reply:
        text = json.dumps(request.body)
        if ASKS_STATEMENT not in text:
            return Reply("1. " + text)
        table = "vault_sales" if "vault_sales" in text else "till_sales"
        return Reply(json.dumps({"statement": f"SELECT sum(price) FROM {table}"}))

    with ScriptedServer(script) as model:
        more = DATABASES.format(model=model.url, groups="hr")
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/tea.md").write_text("# Tea\n\nTea needs four minutes.\n")
        (tmp_path / "ragwright.yaml").write_text(f"sources: [docs/]\n{more}")
        shop(tmp_path)
        with Workbench.open(tmp_path) as bench:
            bench.ingest()
        made = keys(tmp_path)
        with served(tmp_path, own=False) as running:
            for name in made:
                assert "31" in asked(running, made[name], "How many till sales are there?")[1]
                _, everything = asked(running, made[name], "How many vault sales are there?")
                assert ("77001" in everything) == (name in {"hr", "both", "owner"}), name
                if name in {"nobody", "board"}:
                    assert not re.search("sql|vault_sales|price", everything)
            file = tmp_path / "ragwright.yaml"
            file.write_text(file.read_text().replace("groups: [hr]", "groups: [board]"))
            for _ in range(200):
                _, everything = asked(running, made["hr"], "How many vault sales are there?")
                if "77001" not in everything:
                    break
                time.sleep(0.05)
            assert "77001" not in everything
            assert "77001" in asked(running, made["board"], "How many vault sales are there?")[1]


def test_a_computed_answer_quotes_its_rows_and_opens_the_document_at_them(tmp_path: Path) -> None:
    folder = project(tmp_path)
    body = {"messages": [{"role": "user", "content": "How many orders are of the region South?"}]}
    with served(folder) as running:
        client = running.client("")
        whole = client.post("/v1/chat/completions", json=body).json()
        stream = client.post("/v1/chat/completions", json=body | {"stream": True}).text
        asked_page = client.post("/", data={"q": body["messages"][0]["content"]}).text
        [cited] = whole["ragwright"]["citations"]
        assert "South" in cited["quote"]
        streamed = json.loads(stream.split("data: ")[-2])["ragwright"]["citations"]
        assert streamed == [cited]
        links = {html.unescape(link) for link in re.findall(r'href="(/source[?][^"]+)', asked_page)}
        assert links == {cited["url"].removeprefix(running.address)}
        [link] = links
        for door in ("/source?", "/source/beside?"):
            shown = client.get(link.replace("/source?", door)).text
            assert re.search("<mark[^>]*>[^<]*A2[^<]*South", shown), door
        assert "A2 · South" in shown, "beside an answer, rows have no pipes"
        assert "|" not in shown
        assert "---" not in shown
