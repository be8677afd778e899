"""Lists over all documents read from their structure, by default where no chat model is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.core import Answer
from ragwright.testing import ScriptedServer

NAMES = (
    *("Ada Long", "Bea Short", "Carl Moss", "Dora Pike", "Egon Wells", "Fay Holt"),
    *("Gus Reed", "Hal Stone", "Ida Croft", "Jon Marsh", "Kay Dunn", "Leo Frost"),
)
DEBATE = "# Debate on the harbour\n\n" + "".join(
    f"{name}: I have listened with care, and {what} the harbour plan before us, for the cost "
    f"of {number} barges a year is what this town will feel in every winter to come.\n\n"
    for number, (name, what) in enumerate(
        zip(NAMES * 2, ("I support", "I oppose") * 12, strict=True)
    )
)
WHO = "Who are the contributors to the debate?"
SETTINGS = "chunk: {by: tokens, size: 60, overlap: 0}\nretrieve: {top_k: 3}\n"


def asked(folder: Path, question: str, *settings: str) -> Answer:
    with Workbench.open(folder, Session(settings)) as bench:
        bench.ingest()
        return bench.ask(question)


def test_the_contributors_of_a_debate_are_all_listed_by_default(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(SETTINGS, **{"debate.md": DEBATE})
    answer = asked(folder, WHO)
    assert [name for name in NAMES if name in answer.text] == list(NAMES)
    assert answer.text.startswith("12 found:")
    assert (answer.route, answer.model) == ("corpus", "structure")
    assert "listed from speaker lines, no model" in answer.notes
    assert len(answer.citations) >= 12
    for citation in answer.citations:
        assert DEBATE[citation.start : citation.end].rstrip(":") in NAMES
    few = asked(folder, WHO, "retrieve.route.method=index")
    assert few.route == "index"
    assert sum(name in few.text for name in NAMES) < 12


@pytest.mark.parametrize(
    "question",
    [
        "How many people speak in the debate?",
        "How many speakers are there?",
        "Who took part in the debate?",
        "Name everybody who spoke.",
        "Qui prend la parole dans le débat ?",
    ],
)
def test_speakers_are_also_asked_for_by_what_they_do(tmp_path: Path, question: str) -> None:
    folder = MakeProject(tmp_path)(SETTINGS, **{"debate.md": DEBATE})
    answer = asked(folder, question)
    assert answer.text.startswith("12 ")
    assert [name for name in NAMES if name in answer.text] == list(NAMES)


def test_the_documents_are_listed_by_their_titles(tmp_path: Path) -> None:
    files = {"a.md": "# Pumps\n\nA pump.", "b.md": "# Valves\n\nA valve."}
    folder = MakeProject(tmp_path)("", **files)
    for question in ("List all documents", "Which files are there?"):
        answer = asked(folder, question)
        assert answer.text == "There are 2 documents:\n- Pumps [1]\n- Valves [2]"
        assert [citation.source for citation in answer.citations] == ["docs/a.md", "docs/b.md"]
    assert asked(folder, "How many documents are there?").text == "There are 2 documents."


def test_capital_names_of_a_french_play(tmp_path: Path) -> None:
    play = "# Le Port\n\n## Acte I\n\nMADAME ORTIE. La clef.\n\nLUCIEN. Où ?\n\nNOTE. Rien.\n"
    folder = MakeProject(tmp_path)("", **{"piece.md": play})
    answer = asked(folder, "Qui sont les personnages de la pièce ?")
    assert "MADAME ORTIE" in answer.text
    assert "LUCIEN" in answer.text
    assert answer.text.startswith("2 trouvé(s)")


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("List all parties.", {"Labour", "Greens", "Liberals"}),
        ("How many parties are named in total?", {"3 found"}),
        ("What are all the speakers?", {"Ada Long", "Bea Short", "Carl Moss"}),
    ],
)
def test_columns_of_tables(tmp_path: Path, question: str, wanted: set[str]) -> None:
    table = (
        "speaker,party,speech\nAda Long,Labour,The harbour must be dredged.\n"
        "Bea Short,Greens,It must not.\nCarl Moss,Liberals,It depends.\n"
    )
    folder = MakeProject(tmp_path)("", **{"speeches.csv": table})
    answer = asked(folder, question)
    assert answer.model == "structure"
    assert all(one in answer.text for one in wanted)


def test_metadata_and_headings(tmp_path: Path) -> None:
    letters = {
        f"{n}.md": f"---\nauthor: {name}\n---\n# Letter {n}\n\n"
        f"## Greetings from town {n}\n\nDear sir.\n"
        for n, name in enumerate(NAMES[:3])
    }
    folder = MakeProject(tmp_path)("", **letters)
    authors = asked(folder, "List all authors.")
    assert all(name in authors.text for name in NAMES[:3])
    assert "listed from the metadata author, no model" in authors.notes
    chapters = asked(folder, "List all headings.")
    assert "Greetings from town 2" in chapters.text


@pytest.mark.parametrize(
    "question",
    [
        "Who are the contributors who oppose the plan in winter?",
        "List all bridges.",
        WHO[:-1] + "y?",
    ],
)
def test_a_condition_that_structure_cannot_check_is_left_to_the_index(
    tmp_path: Path, question: str
) -> None:
    folder = MakeProject(tmp_path)(SETTINGS, **{"debate.md": DEBATE})
    assert asked(folder, question).route == "index"


def test_prose_is_no_transcript_and_a_column_must_be_named_wholly(tmp_path: Path) -> None:
    prose = (
        "# Steps and filters\n\nThe brakes need care.\n\nIn Python: see below.\n\nMore text.\n\n"
        "The oil too.\n\nPDF: a format.\n\nAnd the coolant.\n\n| name | what changed |\n| - | - |\n"
        "| a | one |\n| b | two |\n"
    )
    folder = MakeProject(tmp_path)("", **{"guide.md": prose})
    for question in ("Who are the contributors?", "List the steps for changing the filters."):
        assert asked(folder, question).model != "structure"


def test_with_a_chat_model_a_note_says_what_every_chunk_would_cost(tmp_path: Path) -> None:
    with ScriptedServer("Ada Long and Bea Short [1].") as server:
        settings = f"{SETTINGS}answer: {{model: '{server.url}#writer'}}\n"
        folder = MakeProject(tmp_path)(settings, **{"debate.md": DEBATE})
        answer = asked(folder, WHO)
        assert len(server.requests) == 1
        with Workbench.open(folder) as bench:
            chunks = len(bench.retrieve("the harbour plan", k=500).hits)
    (note,) = [note for note in answer.notes if "every chunk" in note]
    assert f"takes {chunks} calls: --set retrieve.route.method=rules" in note
    assert answer.route == "index"
