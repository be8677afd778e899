"""What `ask` shows without a chat model: sections cut to whole units, or nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.workbench import Workbench

GUIDE = """# The pump

A pump moves water from the tank to the roof. It is switched on by hand.

## Exit codes

| code | meaning |
|---|---|
| 0 | the pump runs |
| 1 | the filter is blocked |
| 2 | the motor is hot |

## Limits

Three things limit the pump:

- the height of the roof
- the size of the tank

Command for flushing:

```bash
pumpctl flush

pumpctl dry
```

## Terms

Bilge
    The lowest part of a ship.

    Water gathers there.

Keel
    The long beam below.
"""
CODES = """# Faults

E401
The lamp is broken. Put in a new lamp.

E402
The battery is empty. Charge it for an hour.

E403
The lid is open. Close the lid and press start.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pump.md").write_text(GUIDE, "utf-8")
    (tmp_path / "docs" / "codes.md").write_text(CODES, "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n", "utf-8")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
    return tmp_path


def asked(folder: Path, question: str, *more: str) -> dict[str, Any]:
    [answer] = json.loads(ragwright(folder, "ask", question, "--json", *more).stdout)["answers"]
    return dict(answer)


def test_a_snippet_has_its_place_its_headings_and_its_best_sentence(folder: Path) -> None:
    answer = asked(folder, "Where does the pump move the water to?")
    best = answer["snippets"][0]
    assert [*best] == [
        *("text", "marked", "document_id", "source", "page", "start", "end", "heading", "score")
    ]
    text = (folder / "docs" / "pump.md").read_text("utf-8")
    assert text[best["start"] : best["end"]] == best["text"]
    start, end = best["marked"]
    assert best["text"][start:end] == "A pump moves water from the tank to the roof."
    assert best["heading"] == "The pump"
    assert len(answer["snippets"]) <= 3
    assert all(len(snippet["text"]) <= 900 for snippet in answer["snippets"])
    assert [c["marker"] for c in answer["citations"]] == [*range(1, len(answer["snippets"]) + 1)]


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("Which things limit the height of the pump?", ["things limit", "the size of the tank"]),
        ("What is the command for flushing?", ["Command for flushing:", "pumpctl dry\n```"]),
        ("What is the bilge?", ["Bilge\n    The lowest", "    Water gathers there."]),
        ("Which exit code is for a hot motor?", ["| code | meaning |", "| 2 | the motor is hot |"]),
    ],
)
def test_a_unit_is_shown_whole(folder: Path, question: str, whole: list[str]) -> None:
    best = asked(folder, question)["snippets"][0]
    assert [part for part in whole if part not in best["text"]] == []


def test_the_row_of_a_long_table_is_shown_with_its_header(folder: Path) -> None:
    rows = "\n".join(f"| part {n} | shelf {n * 7} of the {n}th hall |" for n in range(60))
    table = f"# Stock\n\n| part | place |\n|---|---|\n{rows}\n| gasket | cellar |\n"
    (folder / "docs" / "stock.md").write_text(table, "utf-8")
    ragwright(folder, "ingest")
    best = asked(folder, "Where is the gasket?")["snippets"][0]
    assert best["text"].startswith("| part | place |")
    assert best["text"].endswith("| gasket | cellar |")
    assert len(best["text"]) <= 900


def test_the_entry_of_a_code_comes_first_and_other_words_do_not_count(folder: Path) -> None:
    for question in ("What does E402 mean?", "I see E402 on my scooter, please help"):
        best = asked(folder, question)["snippets"][0]
        assert best["text"] == "E402\nThe battery is empty. Charge it for an hour."


def test_what_no_passage_covers_is_not_answered_and_the_words_are_named(folder: Path) -> None:
    answer = asked(folder, "Which Zeppelins visited Lakehurst?")
    assert (answer["abstained"], answer["snippets"], answer["citations"]) == (True, [], [])
    assert answer["text"].endswith("In no document: Zeppelins, visited, Lakehurst.")
    lowered = asked(folder, "Which pump visited Lakehurst?", "--set", "answer.threshold=0.1")
    assert lowered["snippets"]


def test_the_text_says_that_no_model_is_set_and_personas_get_the_same(folder: Path) -> None:
    shown = ragwright(folder, "ask", "What is the bilge?", "--persona", "engineer").stdout
    assert "No chat model is set: these passages match best." in shown
    assert "tailoring needs a chat model" in shown
    assert "\x1b" not in shown


def test_an_evaluation_takes_the_best_unit_alone(folder: Path) -> None:
    row = {"user_input": "What does E403 mean?", "reference": "The lid is open."}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    out = ragwright(folder, "eval", "--testset", "rows.jsonl", "--measures", "TokenF1", "--json")
    run = json.loads(out.stdout)["run"]
    with Workbench.open(folder) as bench:
        [result] = bench.results(run).results
    assert result.row is not None
    assert result.row.response == "E403\nThe lid is open. Close the lid and press start."
    assert result.row.metadata["model"] == "snippet"


def write_and_ask(folder: Path, name: str, text: str, question: str) -> dict[str, Any]:
    (folder / "docs" / name).write_text(text, "utf-8")
    ragwright(folder, "ingest")
    return asked(folder, question)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("In Lund dauert der Urlaub ein Jahr.", "Wie lang dauert Elternurlaub in Lund?"),
        ("Das Treibhaus steht in Lund.", "Wo steht das Treibhausgebäude von Lund?"),
        ("L'étape de Lund est arrivée à Nantes.", "Où l'étape de Lund arrive-t-elle ?"),
        ("Les roches de Lund sont déformées.", "Quelle déformation ont les roches de Lund ?"),
    ],
)
def test_other_forms_and_parts_of_compounds_cover_a_word(
    folder: Path, text: str, question: str
) -> None:
    assert text in write_and_ask(folder, "lund.md", text, question)["snippets"][0]["text"]


def test_one_rare_word_that_is_missing_weighs_more_than_words_in_other_wording(
    folder: Path,
) -> None:
    text = "The ferry Aurora leaves Lund at noon and carries forty cars to the island of Ven."
    question = "When does the ferry Aurora leave Lund with forty cars, and who {} her?"
    assert write_and_ask(folder, "ferry.md", text, question.format("boards"))["snippets"]
    assert asked(folder, "Which captain steers the Aurora?")["abstained"]


def test_a_long_section_gives_several_windows_and_at_most_2500_characters_are_shown(
    folder: Path,
) -> None:
    parts = [f"The ferry of Lund, part {n}. " + f"It sails on day {n}. " * 30 for n in range(9)]
    answer = write_and_ask(folder, "ferry.txt", "\n\n".join(parts), "When does the ferry sail?")
    snippets = [s for s in answer["snippets"] if s["source"].endswith("ferry.txt")]
    assert len(snippets) > 1
    assert sum(len(snippet["text"]) for snippet in answer["snippets"]) <= 2500
    places = sorted((s["start"], s["end"]) for s in snippets)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
