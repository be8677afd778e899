"""Questions about documents as such: totals over everything, in four languages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from answer_fakes import hit
from benchmarks.data_sets import DATA
from small_project import MakeProject
from test_corpus import PERSONA, TARGET, Library, part

from ragwright import Workbench
from ragwright.answer import AnswerSetup, CorpusScope, answer_from_corpus
from ragwright.core import Answer, Filter, Hit
from ragwright.retrieve import RouteScene, read_units, route_by_rules


def paged(document: str, page: int, text: str) -> Hit:
    return hit(1, text, document=document, start=1_000 * page, page=page, title=document.upper())


MIXED = [
    paged("book", 1, "The oil pump."),
    paged("book", 2, "The lamp."),
    paged("book", 3, "Another lamp."),
    part("note", 0, "The pump broke.", page=None),
    part("note", 60, "It was mended.", page=None),
    part("mail", 0, "Nothing happened.", page=None),
]
PLAIN = [one for one in MIXED if one.page is None]
BOOK = [one for one in MIXED if one.page is not None]


def counted(question: str, hits: list[Hit]) -> Answer:
    flow = answer_from_corpus(question, [PERSONA], TARGET, AnswerSetup(), CorpusScope())
    (made,) = Library(hits).run(flow)
    assert made.model == "counted"
    return made


@pytest.mark.parametrize(
    ("question", "mixed", "plain", "book"),
    [
        (
            "Which pages mention the pump?",
            "1 of 3 pages and 1 of 2 documents without page numbers hold “the pump”:",
            "1 of 2 documents holds “the pump”:",
            "1 of 3 pages holds “the pump”:",
        ),
        (
            "Quelles pages mentionnent « pump » ?",
            "1 sur 3 pages et 1 sur 2 documents sans numéros de page contiennent « pump »:",
            "1 sur 2 documents contient « pump »:",
            "1 sur 3 pages contient « pump »:",
        ),
        (
            "Auf welchen Seiten steht die pump?",
            "1 von 3 Seiten und 1 von 2 Dokumenten ohne Seitenzahlen enthalten „die pump“:",
            "1 von 2 Dokumenten enthält „die pump“:",
            "1 von 3 Seiten enthält „die pump“:",
        ),
        (
            "¿Qué páginas mencionan la pump?",
            "1 de 3 páginas y 1 de 2 documentos sin números de página contienen «la pump»:",
            "1 de 2 documentos contiene «la pump»:",
            "1 de 3 páginas contiene «la pump»:",
        ),
    ],
)
def test_pages_and_documents_without_pages_count_both(
    question: str, mixed: str, plain: str, book: str
) -> None:
    made = counted(question, MIXED)
    assert made.text.splitlines()[0] == mixed
    assert [cited.document_id for cited in made.citations] == ["book", "note"]
    assert any("without page numbers are counted as documents" in note for note in made.notes)
    assert counted(question, PLAIN).text.splitlines()[0] == plain
    assert counted(question, BOOK).text.splitlines()[0] == book


@pytest.mark.parametrize(
    ("question", "mixed", "plain"),
    [
        (
            "How many pages mention unicorns?",
            "0 of 3 pages and 0 of 2 documents without page numbers hold “unicorns”.",
            "None of the 2 documents holds “unicorns”.",
        ),
        (
            "Combien de pages parlent de licornes ?",
            "0 sur 3 pages et 0 sur 2 documents sans numéros de page contiennent « licornes ».",
            "Aucun des 2 documents ne contient « licornes ».",
        ),
        (
            "Wie viele Seiten erwähnen Einhörner?",
            "0 von 3 Seiten und 0 von 2 Dokumenten ohne Seitenzahlen enthalten „Einhörner“.",
            "Keines der 2 Dokumente enthält „Einhörner“.",
        ),
        (
            "¿Cuántas páginas mencionan unicornios?",
            "0 de 3 páginas y 0 de 2 documentos sin números de página contienen «unicornios».",
            "Ninguno de los 2 documentos contiene «unicornios».",
        ),
        (
            "How many pages are there?",
            "There are 3 pages and 2 documents without page numbers.",
            "There are 2 documents.",
        ),
        (
            "Wie viele Seiten gibt es?",
            "Es gibt 3 Seiten und 2 Dokumente ohne Seitenzahlen.",
            "Es gibt 2 Dokumente.",
        ),
        (
            "Combien de pages y a-t-il ?",
            "Il y a 3 pages et 2 documents sans numéros de page.",
            "Il y a 2 documents.",
        ),
        (
            "¿Cuántas páginas hay?",
            "Hay 3 páginas y 2 documentos sin números de página.",
            "Hay 2 documentos.",
        ),
    ],
)
def test_no_total_is_over_a_part(question: str, mixed: str, plain: str) -> None:
    assert counted(question, MIXED).text == mixed
    assert counted(question, PLAIN).text == plain


def test_filters_bound_the_total_and_that_is_said() -> None:
    scope = CorpusScope((Filter("document", ("note",)),))
    flow = answer_from_corpus(
        "How many documents mention the pump?", [PERSONA], TARGET, AnswerSetup(), scope
    )
    (made,) = Library(MIXED).run(flow)
    assert made.text.startswith("1 of 1 document holds")
    assert made.notes[0] == "read 2 of 2 chunks that meet the filters"


@pytest.mark.parametrize(
    ("question", "unit", "counts", "topic"),
    [
        ("In which files is mspdbsrv.exe mentioned?", "document", False, "mspdbsrv.exe"),
        ("On how many pages does the pump appear?", "page", True, "the pump"),
        ("Combien de documents parlent d'avarice ?", "document", True, "avarice"),
        ("Dans quels documents Harpagon est-il mentionné ?", "document", False, "Harpagon"),
        ("Dans combien de documents apparaît Harpagon ?", "document", True, "Harpagon"),
        ("In welchen Dokumenten wird die Pumpe erwähnt?", "document", False, "die Pumpe"),
        ("Auf wie vielen Seiten kommt die Pumpe vor?", "page", True, "die Pumpe"),
        ("Liste alle Dokumente auf, die die Pumpe erwähnen.", "document", False, "die Pumpe"),
        ("¿En qué archivos aparece la bomba?", "document", False, "la bomba"),
        ("Lista todos los documentos", "document", False, ""),
        ("Quels sont les fichiers sur la pompe ?", "document", False, "la pompe"),
    ],
)
def test_a_question_is_read_in_the_order_of_its_language(
    question: str, unit: str, counts: bool, topic: str
) -> None:
    asked = read_units(question)
    assert asked is not None
    assert (asked.unit, asked.counts, asked.topic) == (unit, counts, topic)
    assert route_by_rules(question, RouteScene()).kind == "corpus"


@pytest.mark.parametrize(
    "question",
    [
        "Which documents do I need for a visa?",
        "Quels documents faut-il pour un visa ?",
        "Welche Dokumente brauche ich für ein Visum?",
        "¿Qué documentos necesito para un visado?",
        "Welche Artikel sind im Sortiment?",
        "¿Qué texto aparece en la pantalla?",
        "List the main reports",
        "List all chapters.",
        "Wie viele Seiten hat das Buch?",
        "What sources of error are there on a lathe?",
    ],
)
def test_other_questions_about_papers_are_not_counted(question: str) -> None:
    assert read_units(question) is None


def test_the_analyzer_of_the_index_need_not_know_the_language(tmp_path: Path) -> None:
    files = {f"{n}.md": f"# Letter {n}\n\nThe {what} is red.\n" for n, what in enumerate("abc")}
    files["p.md"] = "# Pump\n\nThe mspdbsrv.exe process must run before the pump is started.\n"
    folder = MakeProject(tmp_path)("", **files)
    with Workbench.open(folder) as bench:
        bench.ingest()
        for question in (
            "Welche Dateien erwähnen die mspdbsrv.exe?",
            "Quels fichiers mentionnent la mspdbsrv.exe ?",
            "¿Qué archivos mencionan la mspdbsrv.exe?",
        ):
            answer = bench.ask(question)
            assert answer.model == "counted"
            assert answer.text.splitlines()[1:] == ["- Pump [1]"]


def test_a_list_from_a_part_of_the_documents_says_so(tmp_path: Path) -> None:
    debate = "".join(f"Ada Long: yes, {n}.\n\nBea Short: no, {n}.\n\n" for n in range(4))
    folder = MakeProject(tmp_path)("", **{"debate.md": debate, "other.md": "# Tides\n\nHigh.\n"})
    with Workbench.open(folder) as bench:
        bench.ingest()
        answer = bench.ask("Who are the speakers?")
    assert answer.text.startswith("2 found in 1 of 2 documents:")


def test_a_list_with_values_left_out_is_a_lower_bound(tmp_path: Path) -> None:
    table = "part,maker\nvalve,Ash\npump,Birch\nlamp," + "Cedar and Sons " * 8 + "\n"
    folder = MakeProject(tmp_path)("", **{"parts.csv": table})
    with Workbench.open(folder) as bench:
        bench.ingest()
        answer = bench.ask("List all makers.")
    assert answer.text.startswith("At least 2 found (values that are too long")


@pytest.mark.needs_data
def test_error_pages_and_a_printed_booklet(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("", **{"empty.md": "# Empty\n\nNothing.\n"})
    errors = DATA / "msvc_error_reference/docs/error-messages/tool-errors"
    for path in [*errors.glob("linker-tools-error-lnk13*.md"), *errors.glob("*lnk2001.md")]:
        shutil.copy(path, folder / "docs")
    shutil.copy(DATA / "documents/sources/redp5110_sampled.pdf", folder / "docs")
    holding = sum("mspdbsrv.exe" in p.read_text("utf-8") for p in (folder / "docs").glob("*.md"))
    files = len(list((folder / "docs").glob("*.md")))
    with Workbench.open(folder) as bench:
        bench.ingest()
        answer = bench.ask("Which pages mention mspdbsrv.exe?")
    assert holding == 1
    assert "pages without text are not counted" in answer.notes  # one of 18 is blank
    assert answer.text.splitlines()[0] == (
        f"0 of 17 pages and {holding} of {files} documents without page numbers holds"
        " “mspdbsrv.exe”:"
    )
