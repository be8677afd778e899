"""A code that heads an entry of a manual is answered with that entry, whole."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from answer_fakes import Driver, hit
from small_project import MakeProject

from ragwright import Workbench
from ragwright.answer import AnswerOptions, cited_numbers, extract
from ragwright.core import Answer, Hit, Persona

EXAMPLE = Path(__file__).parents[2] / "examples" / "error_codes"
PARTS = (
    ("APP_w304", "Accelerator pedal sensor", "Release the pedal and restart the engine."),
    ("BLS_w307", "Brake light switch", "Have the switch replaced at the next service."),
    ("CTS_e310", "Coolant temperature", "Stop the car. Let it cool for half an hour."),
    ("FPR_w313", "Fuel pump relay", "Check the fuse in the left box."),
    ("OXH_w316", "Oxygen sensor heater", "Nothing is urgent."),
    ("CKS_e319", "Crankshaft sensor", "Call a tow truck."),
)
ASKED = "I see code {} on my dashboard what to do?"


def printed(folder: Path, layout: str) -> Path:
    """A project with a PDF whose entries are set as code, title and text."""
    make = runpy.run_path(str(EXAMPLE / "make_manual.py"))
    cover = "Car manual\n\nYou see a code on your dashboard. What should you do? Look it up here."
    entries = [layout.format(*entry) for entry in PARTS]
    pages = [cover, *("\n\n".join(entries[at : at + 3]) for at in (0, 3))]
    (folder / "docs").mkdir(parents=True)
    make["write_pdf"](folder / "docs" / "manual.pdf", [make["wrapped"](page) for page in pages])
    (folder / "ragwright.yaml").write_text("sources: [docs/]\n")
    return folder


THREE = "{0}\n\n{1}\n\n{2}"
LAYOUTS = [THREE, "{0}\n{1}\n\n{2}", "{0} {1}\n\n{2}", "Code: {0}\n\n{1}\n\n{2}"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_code_of_a_printed_manual(tmp_path: Path, layout: str) -> None:
    with Workbench.open(printed(tmp_path, layout)) as bench:
        bench.ingest()
        for code, title, text in PARTS:
            answer = bench.ask(ASKED.format(code))
            assert answer.text == f"{code}: {title}\n{text} [1]"
            (cited,) = answer.citations
            source = next(h for h in answer.hits if h.rank == cited.marker)
            shown = source.text[cited.start - source.start : cited.end - source.start]
            assert code in shown
            assert text in " ".join(shown.split())
            assert cited.page in (2, 3)


def test_every_code_of_the_example_manual(tmp_path: Path) -> None:
    make = runpy.run_path(str(EXAMPLE / "make_manual.py"))
    (tmp_path / "docs").mkdir()
    make["write_pdf"](tmp_path / "docs" / "manual.pdf", make["pages_of"](EXAMPLE / "manual"))
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    answers: dict[str, Answer] = {}
    entries = [
        line.removeprefix("## ").split(" ", 1)
        for path in sorted((EXAMPLE / "manual").glob("*.md"))
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("## ") and "_" in line
    ]
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        for code, _ in entries:
            answers[code] = bench.ask(f"The panel shows {code}. What should I do?")
        proposed = [check for check in bench.doctor() if check.topic == "chunks"]
    assert len(entries) == 40
    right = [code for code, title in entries if answers[code].text.startswith(f"{code}: {title}\n")]
    assert len(right) == 40
    (check,) = proposed
    assert "chunk: {by: entries, pattern: '^[A-Z]{3}_[ew]\\d{3}$'}" in check.do


def test_the_proposed_pattern_is_taken_by_the_project_file(tmp_path: Path) -> None:
    folder = printed(tmp_path, THREE)
    with Workbench.open(folder) as bench:
        bench.ingest()
        (check,) = [check for check in bench.doctor() if check.topic == "chunks"]
    assert "6 codes such as APP_w304" in check.text
    setting = check.do[check.do.index("chunk: {") : check.do.rindex("}") + 1]
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{setting}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
        hits = bench.retrieve("BLS_w307", k=1).hits
        assert hits[0].text.startswith("BLS_w307")
        assert "CTS_e310" not in hits[0].text
        assert not [check for check in bench.doctor() if check.topic == "chunks"]


def test_documents_without_entries_get_no_proposal(tmp_path: Path) -> None:
    with Workbench.open(MakeProject(tmp_path)("")) as bench:
        bench.ingest()
        assert not [check for check in bench.doctor() if check.topic == "chunks"]


def extracted(question: str, *hits: Hit, persona: Persona | None = None) -> Answer:
    return Driver().run(extract(question, persona or Persona(""), hits, AnswerOptions()))


MANUAL = "\n\n".join(THREE.format(*entry) for entry in PARTS)


@pytest.mark.parametrize(
    "question",
    [
        "Who invented APP_w304?",
        "When was APP_w304 first reported?",
        "What does APP_w305 mean?",
        "What does w304 mean?",
        "How do I reach the workshop?",
    ],
)
def test_other_questions_are_not_answered_with_the_entry(question: str) -> None:
    assert not extracted(question, hit(1, MANUAL)).text.startswith("APP_w304: ")


def test_a_mention_of_a_code_is_no_entry() -> None:
    text = "The relay fails together with APP_w304, as the log of the car shows."
    made = extracted(ASKED.format("APP_w304"), hit(1, text), hit(2, MANUAL, document="m"))
    assert made.text.startswith("APP_w304: Accelerator pedal sensor\n")
    assert [cited.marker for cited in made.citations] == [2]


def test_a_code_with_several_meanings_gets_each_once() -> None:
    other = "APP_w304\n\nApproach radar\n\nClean the front grille."
    hits = (hit(1, MANUAL), hit(2, other), hit(3, other, document="copy"))
    made = extracted(ASKED.format("APP_w304"), *hits)
    assert made.text == (
        "APP_w304: Accelerator pedal sensor\nRelease the pedal and restart the engine. [1]\n\n"
        "APP_w304: Approach radar\nClean the front grille. [2]"
    )
    assert "APP_w304 has 2 entries in the passages found" in made.notes


def test_both_of_two_codes_are_answered_whatever_their_case() -> None:
    made = extracted("app_w304 and fpr_w313, which is worse?", hit(1, MANUAL))
    assert "APP_w304: Accelerator pedal sensor" in made.text
    assert "FPR_w313: Fuel pump relay" in made.text


def test_a_long_entry_is_cut_at_the_words_of_the_persona() -> None:
    text = f"E42\n\nPump\n\n{'Open the valve and wait. ' * 20}"
    made = extracted("E42?", hit(1, text), persona=Persona("terse", max_words=20))
    assert 10 < len(made.text.split()) < 25
    assert any("max_words" in note for note in made.notes)
    (cited,) = made.citations
    assert text[cited.start : cited.end].endswith("wait.")


def test_an_entry_below_a_heading_is_taken_where_no_sentence_is_enough() -> None:
    text = "# Codes\n\n## APP_w304 Pedal\n\nRelease it.\n\n## BLS_w307 Switch\n\nPress it.\n"
    made = extracted(ASKED.format("BLS_w307"), hit(1, text))
    assert made.text == "BLS_w307: Switch\nPress it. [1]"


def test_an_entry_cannot_forge_a_citation() -> None:
    made = extracted("E42?", hit(1, "E42\n\nPump stopped\n\nAs shown in [7], open the valve."))
    assert cited_numbers(made.text) == [1]
