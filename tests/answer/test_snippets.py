"""What `ask` shows without a chat model: sections cut to whole units, or nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from small_project import MakeProject

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
FAULTS = """# Faults

E401
The lamp is broken. Put in a new lamp.

E402
The battery is empty. Charge it for an hour.

E403
The lid is open. Close the lid and press start.
"""
ROWS = "\n".join(f"| part {n} | shelf {n * 7} of the {n}th hall |" for n in range(60))
STOCK = f"# Stock\n\n| part | place |\n|---|---|\n{ROWS}\n| gasket | cellar |\n"
FERRY = "The ferry Aurora leaves Lund at noon and carries forty cars to the island of Ven."
LONG = [f"The line of Visby, part {n}. " + f"It sails on day {n}. " * 30 for n in range(9)]
OTHER_FORMS = [
    ("In Lund dauert der Urlaub ein Jahr.", "Wie lang dauert Elternurlaub in Lund?"),
    ("Das Treibhaus steht in Kiel.", "Wo steht das Treibhausgebäude von Kiel?"),
    ("L'étape de Brest est arrivée à Nantes.", "Où l'étape de Brest arrive-t-elle ?"),
    ("Les roches de Fos sont déformées.", "Quelle déformation ont les roches de Fos ?"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = MakeProject(tmp_path_factory.mktemp("snippets"))
    texts = {"pump.md": GUIDE, "faults.md": FAULTS, "stock.md": STOCK, "ferry.md": FERRY}
    others = {f"{n}.md": text for n, (text, _) in enumerate(OTHER_FORMS)}
    folder = made(**texts, **others, **{"line.txt": "\n\n".join(LONG)})
    ragwright(folder, "ingest", "-q")
    return folder


def asked(folder: Path, question: str, *more: str) -> dict[str, Any]:
    [answer] = json.loads(ragwright(folder, "ask", question, "--json", *more).stdout)["answers"]
    return dict(answer)


def test_a_snippet_has_its_place_its_headings_and_its_best_sentence(folder: Path) -> None:
    answer = asked(folder, "Where does the pump move the water to?")
    best = answer["snippets"][0]
    assert [*best] == [
        *("text", "marked", "document_id", "source", "page", "start", "end", "heading", "score")
    ]
    assert GUIDE[best["start"] : best["end"]] == best["text"]
    marked = best["text"][slice(*best["marked"])]
    assert marked == "A pump moves water from the tank to the roof."
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
        ("Where is the gasket?", ["| part | place |\n", "\n| gasket | cellar |"]),
        *((question, [text]) for text, question in OTHER_FORMS),
    ],
)
def test_a_unit_is_shown_whole_in_other_forms(folder: Path, question: str, whole: Any) -> None:
    best = asked(folder, question)["snippets"][0]["text"]
    assert [part for part in whole if part not in best] == []
    assert len(best) <= 900
    if "gasket" in question:  # of a long table the row, below its header
        assert best.startswith(whole[0])
        assert best.endswith(whole[1])


@pytest.mark.parametrize(
    "question", ["What does E402 mean?", "I see E402 on my scooter, please help"]
)
def test_the_entry_of_a_code_comes_first(folder: Path, question: str) -> None:
    best = asked(folder, question)["snippets"][0]
    assert best["text"] == "E402\nThe battery is empty. Charge it for an hour."


def test_a_chunk_that_begins_with_a_code_is_its_entry(tmp_path: Path) -> None:
    """Two entries that begin with code and title are no list; cut by entries, each is one."""
    (tmp_path / "ragwright.yaml").write_text(
        "sources: [docs/]\nchunk: {by: entries, pattern: '^VLV_'}\n"
    )
    (tmp_path / "docs").mkdir()
    entries = "VLV_e215 Outlet open\nClose it by hand.\n\nVLV_e216 Blocked\nAs VLV_e215.\n"
    (tmp_path / "docs" / "valves.txt").write_text(f"What the panel shows.\n\n{entries}")
    ragwright(tmp_path, "ingest", "-q")
    best = asked(tmp_path, "The panel shows VLV_e215. What should I do?")["snippets"][0]
    assert best["text"] == "VLV_e215 Outlet open\nClose it by hand."


def test_the_entry_of_a_code_has_the_heading_above_it(tmp_path: Path) -> None:
    """A chunk of several sections: the entry stands in its last one."""
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    (tmp_path / "docs").mkdir()
    codes = "NW-101: renew the certificate.\nNW-204: wait 20 minutes.\n"
    (tmp_path / "docs" / "vpn.md").write_text(
        f"# Security\n\n## Passwords\nNever by mail.\n\n## Codes of the VPN\n{codes}"
    )
    ragwright(tmp_path, "ingest", "-q")
    best = asked(tmp_path, "What does NW-204 mean?")["snippets"][0]
    assert (best["text"], best["heading"]) == (
        *("NW-204: wait 20 minutes.", "Security > Codes of the VPN"),
    )


def test_what_no_passage_covers_is_not_answered_and_the_words_are_named(folder: Path) -> None:
    answer = asked(folder, "Which Zeppelins visited Lakehurst?")
    assert (answer["abstained"], answer["snippets"], answer["citations"]) == (True, [], [])
    assert answer["text"].endswith("In no document: Zeppelins, visited, Lakehurst.")
    assert asked(folder, "Which pump visited Lakehurst?", "--set", "answer.threshold=0.1")[
        "snippets"
    ]
    # One rare word that is missing weighs more than words in other wording.
    question = "When does the ferry Aurora leave Lund with forty cars, and who boards her?"
    assert asked(folder, question)["snippets"]
    assert asked(folder, "Which captain steers the Aurora?")["abstained"]


def test_a_long_section_gives_several_windows_of_at_most_2500_characters(folder: Path) -> None:
    answer = asked(folder, "When does the line of Visby sail?")
    snippets = [s for s in answer["snippets"] if s["source"].endswith("line.txt")]
    assert len(snippets) > 1
    assert sum(len(snippet["text"]) for snippet in answer["snippets"]) <= 2500
    places = sorted((s["start"], s["end"]) for s in snippets)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))


def test_that_no_model_is_set_is_said_and_an_evaluation_takes_the_best_unit(folder: Path) -> None:
    shown = ragwright(folder, "ask", "What is the bilge?", "--persona", "engineer").stdout
    assert "No chat model is set: these passages match best." in shown
    assert "tailoring needs a chat model" in shown
    assert "\x1b" not in shown
    row = {"user_input": "What does E403 mean?", "reference": "The lid is open."}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    out = ragwright(folder, "eval", "--testset", "rows.jsonl", "--measures", "TokenF1", "--json")
    with Workbench.open(folder) as bench:
        [result] = bench.results(json.loads(out.stdout)["run"]).results
    assert result.row is not None
    assert result.row.response == "E403\nThe lid is open. Close the lid and press start."
    assert result.row.metadata["model"] == "snippet"
