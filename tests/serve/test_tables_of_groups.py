"""Questions to spreadsheets and databases, answered over the tables that a reader may see."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
import time
from pathlib import Path

from served import Running, served
from test_reader_groups import key

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
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
        made = keys(folder)
        number = itertools.count(100)

        def with_statement(statement: str, name: str = "nobody") -> str:
            """The reply where a model writes this statement; a new question, so that it does."""
            statements[:] = [statement]
            question = f"How many orders are there in the region {next(number)}?"
            _, everything = asked(running, made[name], question)
            return re.sub(r"region \d+|\b1\d\d\b", "", everything)

        with served(folder) as running:
            shown = {}
            for table in ("pay", "pay_2", "nil"):
                for column in ("*", '"Bonus"'):
                    everything = with_statement(f"SELECT {column} FROM {table}")
                    shown[table, column] = _steady(everything, table)
                    assert "no such table" in everything
            for form in (
                "SELECT name FROM sqlite_master",
                "SELECT * FROM _tables, orders",
                "SELECT * FROM main.pay",
                "WITH pay AS (SELECT * FROM main.pay) SELECT * FROM pay",
                'SELECT count(*) FROM orders JOIN pay USING ("Office")',
                'SELECT "Order" FROM orders WHERE (SELECT count(*) FROM pay) > 0',
                "SELECT * FROM pragma_table_list, orders",
            ):
                everything = with_statement(form)
                held = [word for word in HIDDEN[:-2] if word in everything]
                assert not held, (form, everything)
            assert not [word for prompt in prompts for word in HIDDEN[:-1] if word in prompt]
            own = with_statement('SELECT "Order" FROM orders WHERE "Region" = \'North\'')
            assert "A1" in own
            total = 'SELECT sum("Bonus (EUR)") FROM pay'
            assert "170003" in with_statement(total, "board")
    for column in ("*", '"Bonus"'):
        [same] = {text for (_, c), text in shown.items() if c == column}
        assert same


def _steady(text: str, table: str) -> str:
    """A reply without what differs between two equal requests."""
    text = text.replace(table, "TABLE")
    return re.sub(r"(chatcmpl|resp|req)[\w-]+|\"created\": ?\d+|'[\w-]+': '[^']*'", "", text)


def test_a_table_that_is_closed_is_closed_at_the_next_ingest(tmp_path: Path) -> None:
    """Groups of the file change, and its text does not."""

    def script(request: ServerRequest) -> Reply:
        text = json.dumps(request.body)
        statement = """SELECT sum("Salary (EUR)") FROM pay"""
        asks = ASKS_STATEMENT in text
        return Reply(json.dumps({"statement": statement}) if asks else f"1. {text}")

    with ScriptedServer(script) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}")
        secret = keys(folder)["hr"]
        with served(folder) as running:
            assert "9303" in asked(running, secret, "What is the total salary?")[1]
            file = folder / "ragwright.yaml"
            rule = "match: hr, groups: [hr]"
            file.write_text(file.read_text().replace(rule, rule.replace("[hr]", "[board]")))
            with Workbench.open(folder) as bench:
                assert bench.ingest().counts.changed == 1
            _, everything = asked(running, secret, "What is the total salary of all?")
            assert "9303" not in everything


def test_a_key_with_filters_asks_the_tables_of_documents_that_meet_them(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for tenant, amount in (("acme", 120), ("umbra", 948271)):
        (tmp_path / f"docs/{tenant}.csv").write_text(f"Order,Amount\nA1,{amount}\n")

    def script(request: ServerRequest) -> Reply:
        text = json.dumps(request.body)
        if ASKS_STATEMENT not in text:
            return Reply(f"1. {text}")
        seen = [name for name in ("acme", "umbra") if f"{name}(_row" in text]
        return Reply(json.dumps({"statement": f"SELECT sum(Amount) FROM {'+'.join(seen)}"}))

    with ScriptedServer(script) as model:
        (tmp_path / "ragwright.yaml").write_text(
            f"answer: {{model: '{model.url}#writer'}}\n"
            "sources:\n- {source: docs/acme.csv, metadata: {tenant: acme}}\n"
            "- {source: docs/umbra.csv, metadata: {tenant: umbra}}\n"
        )
        with Workbench.open(tmp_path) as bench:
            bench.ingest()
        tenant_key = ServeKey("acme", "reader", filters=("tenant=acme",))
        secret = ServeKeys(ProjectFolder(tmp_path)).add(tenant_key)
        with served(tmp_path, own=False) as running:
            _, everything = asked(running, secret, "What is the total amount?")
            assert "| 120 |" in everything
            assert "948271" not in everything
            assert "umbra" not in everything


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


def test_a_citation_of_rows_opens_the_document_at_them(tmp_path: Path) -> None:
    def script(request: ServerRequest) -> Reply:
        statement = """SELECT _row, "Order" FROM orders WHERE "Region" = 'South'"""
        asks = ASKS_STATEMENT in json.dumps(request.body)
        return Reply(json.dumps({"statement": statement}) if asks else "It is A2 [1].")

    with ScriptedServer(script) as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}")
        body = {"messages": [{"role": "user", "content": "How many orders are of the South?"}]}
        with served(folder) as running:
            client = running.client("")
            whole = client.post("/v1/chat/completions", json=body).json()
            [cited] = whole["ragwright"]["citations"]
            assert cited["document_id"] == "docs/orders.csv"
            link = cited["url"].removeprefix(running.address)
            for door in ("/source?", "/source/beside?"):
                shown = client.get(link.replace("/source?", door)).text
                assert re.search("<mark[^>]*>[^<]*A2[^<]*South", shown), door
