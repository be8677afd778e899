"""Plays: the cast is listed, and what one speaker says is quoted from that speaker's speeches."""

from __future__ import annotations

from pathlib import Path

import pytest
from answer_fakes import Driver, hit
from benchmarks.data_sets import DATA
from small_project import MakeProject

from ragwright import Workbench
from ragwright.answer import AnswerOptions, extract
from ragwright.core import Answer, Persona

TEI = """<?xml version="1.0"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0" xml:lang="fr"><teiHeader><title>{title}</title></teiHeader>
<text><front><div><head>Préface</head><p>Qui sont les personnages ? Le lecteur le demande aux
personnages, et les personnages de la pièce ne répondent pas.</p></div>
<div><head>ACTEURS</head><castList>{cast}</castList></div></front>
<body><div1 type="act"><head>Acte I</head><div2 type="scene"><head>Scène I</head>{speeches}</div2>
</div1></body></text></TEI>"""
HARBOUR = (
    ("Ortie", "veuve d'un marin", "Le port sera fermé demain par le gouverneur."),
    ("Lucien", "son fils", "Le port restera ouvert, je le jure."),
    ("Maître Paul", "notaire", "La clef du port est chez moi."),
)
MILL = (("Anne", "meunière", "Le moulin tourne."), ("Luc", "son valet", "Il tourne mal."))


def play(title: str, people: tuple[tuple[str, str, str], ...]) -> str:
    cast = "".join(f"<castItem><role>{who}</role>, {what}.</castItem>" for who, what, _ in people)
    speeches = "".join(
        f"<sp><speaker>{who}</speaker><p><s>{text}</s></p></sp>" for who, _, text in people * 2
    )
    return TEI.format(title=title, cast=cast, speeches=speeches)


def asked(folder: Path, question: str) -> Answer:
    with Workbench.open(folder) as bench:
        bench.ingest()
        return bench.ask(question)


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    files = {"port.xml": play("Le Port", HARBOUR), "moulin.xml": play("Le Moulin", MILL)}
    return MakeProject(tmp_path)("", **files)


@pytest.mark.parametrize(
    "question",
    [
        "Qui sont les personnages ?",
        "Quels sont les personnages ?",
        "Combien de personnages y a-t-il ?",
        "Wer sind die Figuren?",
        "Who are the characters?",
        "¿Quiénes son los personajes?",
    ],
)
def test_the_cast_is_listed_and_no_preface_is_quoted(plays: Path, question: str) -> None:
    answer = asked(plays, question)
    assert answer.model == "structure"
    assert answer.text.startswith("5 ")
    assert "- Ortie, veuve d'un marin." in answer.text
    assert "listed from the cast list, no model" in answer.notes


def test_the_cast_of_one_play_is_that_of_this_play(plays: Path) -> None:
    answer = asked(plays, "Qui sont les personnages du Moulin ?")
    assert answer.text.splitlines() == [
        "2 trouvé(s):",
        "- Anne, meunière. [1]",
        "- Luc, son valet. [1]",
    ]


def test_without_a_list_of_the_cast_the_speakers_are_listed(tmp_path: Path) -> None:
    text = play("Le Port", HARBOUR).replace("<head>ACTEURS</head>", "<head>Avis</head>")
    answer = asked(MakeProject(tmp_path)("", **{"port.xml": text}), "Qui sont les personnages ?")
    assert [line[2:].split(" (2 ")[0] for line in answer.text.splitlines()[1:]] == [
        who for who, _, _ in HARBOUR
    ]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Que dit Lucien du port ?", "Le port restera ouvert, je le jure."),
        ("Que dit Ortie du port ?", "Le port sera fermé demain par le gouverneur."),
        ("What does Maître Paul say about the clef du port?", "La clef du port est chez moi."),
        ("Was sagt Lucien über den port?", "Le port restera ouvert, je le jure."),
        ("¿Qué dice Lucien sobre el port?", "Le port restera ouvert, je le jure."),
    ],
)
def test_what_one_speaker_says(plays: Path, question: str, text: str) -> None:
    answer = asked(plays, question)
    assert text in answer.text
    others = {own for _, _, own in HARBOUR} - {text}
    assert not [own for own in others if own in answer.text]


def test_a_speech_of_another_speaker_is_no_answer() -> None:
    text = "Ada Long: The harbour plan is too dear.\n\nBea Short: I have nothing to add today."
    made = Driver().run(
        extract(
            "What does Bea Short say about the harbour plan?",
            Persona(""),
            (hit(1, text),),
            AnswerOptions(),
        )
    )
    assert "too dear" not in made.text


def test_who_does_not_speak_here_is_asked_about_as_before() -> None:
    text = "The report says that the harbour plan of Bea Short is too dear.\n"
    made = Driver().run(
        extract(
            "What does the report say about the harbour plan?",
            Persona(""),
            (hit(1, text),),
            AnswerOptions(),
        )
    )
    assert "too dear" in made.text


@pytest.mark.slow
@pytest.mark.needs_data
def test_the_cast_of_a_real_play(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("", **{"a.md": "# Avis\n\nRien.\n"})
    for name in ("avare", "tartuffe"):
        path = DATA / "moliere" / f"moliere_{name}.xml"
        (folder / "docs" / path.name).write_bytes(path.read_bytes())
    answer = asked(folder, "Qui sont les personnages de L'Avare ?")
    assert answer.text.startswith("14 trouvé(s):")
    for name in ("Harpagon", "Cléante", "Élise", "Frosine", "La Flèche", "Dame Claude"):
        assert f"- {name}," in answer.text
    assert "Orgon" not in answer.text
