"""Stories C1 to C6: fast scoring of a French play against questions and answers made from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from command_line import ragwright
from story_tools import (
    embedded,
    make_project,
    playing,
    prompts_of,
    read_json,
    read_rows,
    write_rows,
)

from ragwright.testing import Reply, ScriptedServer, ServerRequest

SCENES = {  # what it is about -> act, speaker, what is said, and what is said besides
    "clef": ("I", "ORTIE", "a caché la clef dans la théière bleue", "Personne ne boit de thé ici."),
    "dette": ("I", "LUCIEN", "doit neuf cents francs pour la dette", "Le notaire attend jeudi."),
    "lettre": ("I", "FACTEUR", "apporte la lettre de Dieppe le soir", "Elle sent le sel, la mer."),
    "serrure": ("II", "ORTIE", "ouvre la serrure avec une plume", "La clef ne sert plus à rien."),
    "bateau": ("II", "PIVERT", "retient le bateau à cause du vent", "Le port entier se moquait."),
    "musique": ("II", "CLAVEL", "joue de la musique pour les voisins", "Une clef de sol fausse."),
}
LEVELS = {
    "fact": "Où se trouve {} d'après Madame ?",
    "extraction": "Quels détails concernent {} chez les voisins ?",
    "style": "Comment le ton change-t-il autour de {} ?",
    "idea": "Pourquoi {} compte pour la maison ?",
}
RUMOUR = "Sur la place du port, chacun raconte encore à sa manière ce que cette scène lui apprit."


def question(word: str) -> str:
    return f"Que sait-on de la chose nommée {word} ?"


def said(word: str) -> str:
    """The sentence of a scene that answers its question."""
    _, speaker, fact, _ = SCENES[word]
    return f"Je dis que {speaker.title()} {fact}."


def played(request: ServerRequest) -> str | Reply:
    """A writer of questions, a reader that quotes, a router, and vectors of words."""
    if "input" in request.body:
        return Reply()
    system, user = (str(request.body["messages"][at]["content"]) for at in (0, -1))
    if '"questions"' in system:
        words = [word for word in SCENES if said(word) in user]
        made = []
        for number, (level, asks) in enumerate(LEVELS.items()):
            word = words[number % len(words)]
            row = {"level": level, "question": asks.format(word)}
            made.append({**row, "quote": said(word), "answer": said(word)})
        return json.dumps({"questions": made})
    if '"answerable"' in system:
        [word] = [word for word in SCENES if said(word) in user]
        return json.dumps({"answerable": True, "answer": said(word)})
    if '"items"' in system:
        names = re.findall(r"^([A-Z]{4,})\.", user, re.MULTILINE)
        return json.dumps({"items": [{"item": name, "quote": f"{name}."} for name in names]})
    if '"route"' in system:
        route = "corpus" if "personnages" in user else "index"
        plain = {"database": "", "reason": "so it is", "rewrite": False, "split": False}
        return json.dumps({"route": route, **plain})
    if "personnages" in user:
        return f"{', '.join(dict.fromkeys(re.findall(r'^([A-Z]{4,})[.]', user, re.M)))} [1]."
    asked = re.findall(r"(?:nommée|apporte la) (\w+) \?", user)[-1]
    return f"{said(asked)[:-1]} [1]." if said(asked) in user else "Nul ne connaît ces secrets."


server = playing(played)


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    """Two acts of three scenes, ingested, with a pair for each scene."""
    head = "---\nacte: {0}\nlanguage: fr\n---\n# Acte {0}\n"
    texts = {f"acte-{act}.md": head.format(act) for act in ("I", "II")}
    for word, (act, speaker, _, more) in SCENES.items():
        scene = f"\n## Scène {word}\n\n{speaker}. {said(word)} {more} {RUMOUR}\n"
        texts[f"acte-{act}.md"] += scene
    chosen = (
        f"models: {{m: {{base: '{server.url}'}}}}\n"
        "embed: {model: 'm:mots', dimensions: 512}\nanswer: {model: 'm:lecteur'}\n"
        "keyword: {language: fr}\n"
        "chunk: {by: headings, size: 600}\nretrieve: {top_k: 2}\n"
    )
    folder = make_project(tmp_path_factory.mktemp("play"), texts, chosen)
    asked = [{"id": word, "user_input": question(word), "reference": said(word)} for word in SCENES]
    rows = [{**row, "reference_contexts": [row["reference"]]} for row in asked]
    write_rows(folder / "pairs.jsonl", rows)
    return folder


def compared(play: Path, *settings: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `baseline` prints about an experiment with these settings."""
    named = [word for setting in settings for word in ("--set", setting)]
    return dict(read_json(play, "baseline", "--testset", "pairs.jsonl", *named, *more))


def test_c1_a_model_writes_pairs_at_levels_in_french(play: Path, server: ScriptedServer) -> None:
    cut = ("by=paragraphs", "size=600", "overlap=100")
    named = [word for key in cut for word in ("--set", f"chunk.{key}")]
    ragwright(play, "ingest", "-q", *named)
    before = len(server.requests)
    asked = ("--kinds", "model", "-n", "8", "--per-chunk", "4", "--levels", ",".join(LEVELS))
    made = read_json(play, "synth", *asked, *named, "-o", "testsets/made.jsonl")
    assert (made["questions"], made["made"]) == (8, {f"model {level}": 2 for level in LEVELS})
    for row in read_rows(play / "testsets/made.jsonl"):
        [word] = [word for word in SCENES if said(word) == row["reference"]]
        assert row["reference_contexts"] == [said(word)]
        assert row["user_input"] == LEVELS[row["metadata"]["level"]].format(word)
        [span] = row["reference_spans"]
        assert span["document_id"] == f"docs/acte-{SCENES[word][0]}.md"
        text = (play / span["document_id"]).read_text("utf-8").split("---\n")[2]
        assert text[span["start"] : span["end"]] == said(word)
    prompts = prompts_of(server, before, "lecteur")
    [prompt, *_] = [one for one in prompts if '"questions"' in one]
    assert all(level in prompt for level in LEVELS)
    assert "Les questions et les réponses sont en français." in prompt
    assert not any("You write" in one or "You answer a question from" in one for one in prompts)
    own = "system: 'Une. \"answerable\"'\nuser: '{{ texts }} {{ mark }}'\nagain: Encore.\n"
    (play / "prompts").mkdir(exist_ok=True)
    (play / "prompts/answerable.fr.yaml").write_text(own, "utf-8")
    before = len(server.requests)
    ragwright(play, "synth", *asked, *named, "-o", "testsets/mine.jsonl", "-q")
    prompts = prompts_of(server, before, "lecteur")
    assert any(one.startswith("Une.") for one in prompts)


def test_c2_a_person_accepts_edits_and_rejects_pairs(play: Path) -> None:
    file = play / "review.jsonl"
    file.write_text((play / "pairs.jsonl").read_text("utf-8"), "utf-8")
    typed = "a\nr\ne\nQui apporte la lettre ?\n\nq\n"
    done = ragwright(play, "review", "review.jsonl", "--by", "ada", typed=typed)
    assert done.stdout.strip() == "1 accepted, 1 edited, 1 rejected, 3 open"
    rows = {row["id"]: row for row in read_rows(file)}
    states = {key: row.get("metadata", {}).get("review") for key, row in rows.items()}
    reviewed = {"clef": "accepted", "dette": "rejected", "lettre": "edited"}
    assert states == {**dict.fromkeys(SCENES), **reviewed}
    assert rows["lettre"]["user_input"] == "Qui apporte la lettre ?"
    assert rows["lettre"]["reference"] == said("lettre")
    assert rows["clef"]["metadata"]["reviewed_by"] == "ada"
    found = read_json(play, "baseline", "--testset", "review.jsonl", "--set", "chunk.size=600")
    assert found["n"] == 5  # the rejected pair is in the file, and not measured


def test_c3_two_sets_of_distances_are_compared(play: Path, server: ScriptedServer) -> None:
    same = compared(play)
    assert (same["outcome"], same["n"], same["changed"]) == ("about equal", 6, [])
    ragwright(play, "baseline", "--testset", "pairs.jsonl", "-o", "kept.jsonl")
    kept = read_rows(play / "kept.jsonl")
    assert [one["id"] for one in kept] == [*SCENES] * 2
    for one in kept:
        asked, answered = np.array(one["question_vector"]), np.array(one["answer_vector"])
        assert one["distance"] == pytest.approx(1 - asked @ answered, abs=1e-4)
    base = [one for one in kept if one["set"] == "baseline"]
    assert [one["question"] for one in base] == [question(word) for word in SCENES]
    assert [one["answer"] for one in base] == [said(word) for word in SCENES]
    mean = fmean(one["distance"] for one in base)
    assert same["sets"]["baseline"]["mean"] == pytest.approx(mean, abs=1e-4)
    for at, one in enumerate(base):  # the rank of the own answer among all answers
        asked = np.array(one["question_vector"])
        others = [1 - asked @ np.array(other["answer_vector"]) for other in base]
        assert one["rank"] == 1 + sum(other < others[at] - 1e-6 for other in others)
    worse = compared(play, "answer.closed_book=true")
    assert worse["outcome"] == "larger"
    assert worse["sets"]["experiment"]["mean"] > worse["sets"]["baseline"]["mean"]
    before = len(server.requests)
    cut = ("chunk.size=30", "chunk.overlap=0", "prompt.without=[role]")
    other = compared(play, "embed.model=m:autres", *cut)
    assert other["embedder"] == "m:autres"
    again = embedded(server, before)  # with E', else the comparison means nothing
    assert {text for word in SCENES for text in (question(word), said(word))} <= {*again}


def test_c4_the_same_question_is_answered_with_and_without_its_chunk(play: Path) -> None:
    found = compared(play, more=("--context",))
    assert list(found["sets"]) == ["baseline", "experiment", "with_chunk", "without_chunk"]
    assert found["sets"]["with_chunk"]["mean"] < found["sets"]["without_chunk"]["mean"]
    assert (found["context"]["outcome"], found["context"]["n"]) == ("smaller", 6)


def test_c5_known_failures_of_distances_are_shown(play: Path) -> None:
    for one in compared(play)["sets"].values():
        assert one["echoed"] == pytest.approx(0, abs=1e-5)
        assert one["echoed"] < one["mean"] < one["shuffled"] < 1
        assert one["mean"] < one["random_chunk"] < 1
    absurd = f"{question('clef')} La chose nommée clef est nommée clef."
    texts = {"good": said("clef"), "absurd": absurd, "other": said("bateau")}
    same = {"user_input": question("clef")}
    rows = [{**same, "id": name, "response": text} for name, text in texts.items()]
    write_rows(play / "absurd.jsonl", rows)
    found = read_json(play, "score", "absurd.jsonl", "--measures", "QADistance", "--rows")
    far = {row["id"]: row["QADistance"] for row in found["rows"]}
    assert far["absurd"] < far["good"] < far["other"]  # words of the question win
    assert found["baselines"]["QADistance, question echoed"]["mean"] < far["absurd"]
    assert found["baselines"]["QADistance, answers shuffled"]["n"] == 3

    def acts(*more: str) -> list[str]:
        words = ("retrieve", "Où est la clef dans la théière ?", "-k", "2")
        hits = read_json(play, *words, "--set", "retrieve.search=keyword", *more)["hits"]
        return [hit["metadata"]["acte"] for hit in hits]

    assert acts()[0] == "I"  # though the second act was meant
    assert acts("--filter", "acte=II") == ["II", "II"]
    assert sorted(acts("--set", "retrieve.select.balance=acte")) == ["I", "II"]


def test_c6_what_is_spread_over_the_whole_text_is_read_from_every_chunk(play: Path) -> None:
    asked = ("ask", "Qui sont les personnages de la pièce ?", "--set")
    everyone = {speaker for _, speaker, _, _ in SCENES.values()}
    routes = {}
    for method in ("index", "model"):
        [answer] = read_json(play, *asked, f"retrieve.route.method={method}")["answers"]
        routes[answer["route"]] = {name for name in everyone if name in answer["text"]}
        if method == "model":
            assert "read 6 of 6 chunks, one call each" in answer["notes"]
            assert len(answer["citations"]) == 6
    assert set(routes) == {"index", "corpus"}
    assert len(routes["index"]) == 2  # a few chunks must lose
    assert routes["corpus"] == everyone
