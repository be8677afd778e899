"""Spreadsheets are SQL tables that a chat model asks; without one search finds their rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xlsxwriter

from ragwright import Session, Workbench
from ragwright.core import Answer
from ragwright.testing import Reply, ScriptedServer, ServerRequest

ORDERS = "Order,Region,Amount (EUR),Code\nA1,North,120,007\nA2,South,80.5,012\nA3,North,19,\n"
NORTH = "How many orders are there in the North?"


def made(folder: Path, **files: str) -> Path:
    for name, text in {"orders": ORDERS, **files}.items():
        (folder / f"{name}.csv").write_text(text, "utf-8")
    (folder / "notes.md").write_text("# Tea\n\nThe tea needs four minutes in hot water.\n")
    (folder / "ragwright.yaml").write_text("sources: [.]\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def asked(
    folder: Path,
    statement: str,
    question: str = NORTH,
    *settings: str,
    filters: tuple[str, ...] = (),
) -> tuple[Answer, list[str]]:
    """The answer where a model writes this statement, and the prompts that it saw."""
    prompts: list[str] = []

    def script(request: ServerRequest) -> Reply:
        prompts.append(request.body["messages"][1]["content"])
        writes = "SELECT statement that fetches" in request.body["messages"][0]["content"]
        return Reply(json.dumps({"statement": statement}) if writes else "It is so [1].")

    with ScriptedServer(script) as server:
        model = f"answer.model={server.url}#writer"
        session = Session(overrides=(model, *settings), filters=filters)
        with Workbench.open(folder, session) as bench:
            return bench.ask(question), prompts


def kept(folder: Path) -> Path:
    return folder / ".ragwright" / "data" / "sheets.sqlite"


def test_a_model_asks_the_table_and_its_document_is_cited(tmp_path: Path) -> None:
    folder = made(tmp_path)
    answer, prompts = asked(folder, 'SELECT sum("Amount (EUR)") AS total FROM orders')
    assert answer.route == "sql"
    assert "| 219.5 |" in answer.hits[0].text
    [cited] = answer.citations
    assert (cited.document_id, cited.source) == ("orders.csv", "orders.csv")
    assert any('SELECT sum("Amount (EUR)")' in note for note in answer.notes)
    assert '"Amount (EUR)" number [for example 120; 80.5; 19]' in prompts[0]
    assert '"Code" text [for example 007; 012]' in prompts[0]


def test_rows_that_a_statement_lists_by_number_are_cited_at_their_place(tmp_path: Path) -> None:
    folder = made(tmp_path)
    statement = """SELECT _row, "Order" FROM orders WHERE "Region" = 'South'"""
    [cited] = asked(folder, statement)[0].citations
    with Workbench.open(folder) as bench:
        texts = {document.id: document.text for document in bench.documents()}
    assert texts["orders.csv"][cited.start : cited.end] == "| A2 | South | 80.5 | 012 |"


def test_two_tables_are_two_passages(tmp_path: Path) -> None:
    folder = made(tmp_path, regions="Region,Head\nNorth,Ada\nSouth,Bo\n")
    statement = 'SELECT "Head", count(*) FROM orders JOIN regions USING ("Region") GROUP BY 1'
    answer, _ = asked(folder, statement)
    assert [hit.document_id for hit in answer.hits] == ["orders.csv", "regions.csv"]
    assert "| Ada | 2 |" in answer.hits[0].text


def test_tables_of_a_workbook_are_named_after_file_and_sheet(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(tmp_path / "shop.xlsx") as book:
        sheet = book.add_worksheet("Sales 2024")
        sheet.write(0, 0, "Draft of the back office")
        for at, row in enumerate([["Item", "Price", "Price"], ["Cup", 2, 3.5], ["Pot", 8, 9]], 1):
            sheet.write_row(at, 0, row)
        sheet.write_row(0, 5, ["", "Low", "High"])
        sheet.write_row(1, 5, ["Dam", 3, 8])
    folder = made(tmp_path)
    answer, prompts = asked(
        folder,
        'SELECT sum("Price_2") FROM shop_sales_2024',
        "What is the total price of the sales?",
    )
    assert 'shop_sales_2024(_row integer, "Item" text' in prompts[0]
    assert 'shop_sales_2024_2(_row integer, "column 1" text' in prompts[0]
    assert "| 12.5 |" in answer.hits[0].text
    assert answer.citations[0].page == 1


def test_without_a_chat_model_rows_are_found_by_search(tmp_path: Path) -> None:
    with Workbench.open(made(tmp_path)) as bench:
        found = bench.retrieve("Which order has the code 012?")
    assert found.hits[0].document_id == "orders.csv"
    assert "A2" in found.hits[0].text


def test_questions_about_other_documents_are_searched(tmp_path: Path) -> None:
    folder = made(tmp_path)
    answer, _ = asked(folder, "SELECT 1 FROM orders", "How many minutes does the tea need?")
    assert (answer.route, answer.citations[0].document_id) == ("index", "notes.md")
    answer, _ = asked(folder, "SELECT 1 FROM orders", NORTH, "retrieve.route.method=index")
    assert answer.route == "index"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE orders",
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "PRAGMA table_info(orders)",
        "SELECT * FROM pragma_table_list",
        "SELECT * FROM orders; DELETE FROM orders",
        "SELECT load_extension('x') FROM orders",
        "SELECT readfile('/etc/passwd') FROM orders",
        "SELECT name FROM sqlite_master",
        "SELECT count(*) FROM sqlite_master",
        "SELECT * FROM _documents",
        "SELECT * FROM main.orders",
        "WITH orders AS (SELECT * FROM main._tables) SELECT * FROM orders",
        "SELECT _start FROM orders",
        "SELECT 1",
        "",
    ],
)
def test_a_statement_reads_rows_of_the_tables_and_nothing_else(
    tmp_path: Path, statement: str
) -> None:
    folder = made(tmp_path)
    before = kept(folder).read_bytes()
    answer, _ = asked(folder, statement)
    assert answer.route == "index"
    assert any("did not answer" in note for note in answer.notes)
    assert kept(folder).read_bytes() == before


def test_an_ingest_writes_changed_tables_alone(tmp_path: Path) -> None:
    folder = made(tmp_path, stock="Part,Pieces\nP1,3\n")
    before = kept(folder).read_bytes()
    with Workbench.open(folder) as bench:
        bench.ingest()
        assert kept(folder).read_bytes() == before
        (folder / "orders.csv").write_text(ORDERS.replace("A2,South", "A2,North"))
        bench.ingest()
    count = "SELECT count(*) AS n FROM orders WHERE \"Region\" = 'North'"
    assert "| 3 |" in asked(folder, count)[0].hits[0].text
    kept(folder).write_bytes(b"damaged" * 1000)
    with Workbench.open(folder) as bench:
        bench.ingest()
    assert "| 3 |" in asked(folder, count)[0].hits[0].text


def test_forgetting_a_document_leaves_no_bytes_of_its_tables(tmp_path: Path) -> None:
    people = "Person,Salary\n" + "".join(f"Zacharias{n},{4000 + n}\n" for n in range(2000))
    folder = made(tmp_path, people=people)
    statement = 'SELECT max("Salary") FROM people'
    question = "What is the highest salary of the people?"
    assert "| 5999 |" in asked(folder, statement, question)[0].hits[0].text
    assert b"Zacharias7" in kept(folder).read_bytes()
    with Workbench.open(folder) as bench:
        bench.forget("people.csv")
    for file in (folder / ".ragwright").rglob("*"):
        assert not file.is_file() or not any(
            word in file.read_bytes() for word in (b"Zacharias", b"Salary")
        ), file
    answer, prompts = asked(folder, statement, question)
    assert answer.route == "index"
    assert not any("Salary" in prompt for prompt in prompts)
    with Workbench.open(folder) as bench:
        bench.forget("orders.csv")
    assert not kept(folder).exists()


def test_filters_leave_the_tables_of_documents_that_meet_them(tmp_path: Path) -> None:
    for tenant, rows in (("acme", "A1,100\nA2,20\n"), ("umbra", "U1,777\n")):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "orders.csv").write_text(f"Order,Amount\n{rows}")
    (tmp_path / "ragwright.yaml").write_text(
        "sources:\n- {source: acme, metadata: {tenant: acme}}\n"
        "- {source: umbra, metadata: {tenant: umbra}}\n"
    )
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
    for tenant, own, count, other in (("acme", 120, 2, "777"), ("umbra", 777, 1, "A2")):
        of_tenant = (f"tenant={tenant}",)
        answer, prompts = asked(tmp_path, 'SELECT sum("Amount") FROM orders', filters=of_tenant)
        assert f"| {own} |" in answer.hits[0].text
        assert not any(other in prompt for prompt in prompts)
        joined = 'SELECT count(*) AS n FROM orders JOIN orders AS again USING ("Order")'
        assert f"| {count} |" in asked(tmp_path, joined, filters=of_tenant)[0].hits[0].text
        answer, _ = asked(tmp_path, 'SELECT sum("Amount") FROM orders_2', filters=of_tenant)
        assert answer.route == "index"
        assert "no such table" in " ".join(answer.notes)
    both = 'SELECT (SELECT sum("Amount") FROM orders) + (SELECT sum("Amount") FROM orders_2)'
    assert "| 897 |" in asked(tmp_path, both)[0].hits[0].text
