"""SPEC E: a manual with codes that no embedding model knows.

E6 trains a model, which needs torch: ``tests/app/test_train.py`` holds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from made_files import pdf_of
from own_embedders import PIECES
from story_tools import lacking, make_project, read_json, settings

from ragwright.testing import ScriptedServer

CODES = {
    "APP_w304": "the accelerator pedal sensor reports two positions",
    "APP_w305": "the brake light switch does not respond",
    "APP_w403": "the coolant probe is open",
    "APP_w340": "the fuel relay sticks",
    "APP_w034": "the oxygen heater stays cold",
    "APP_w430": "the crank pin sensor is silent",
}
LIST = "# Warning codes\n\n" + "\n\n".join(
    f"{code}\n\n{meaning.capitalize()}. Drive to a workshop." for code, meaning in CODES.items()
)
COVER = "What should I do when the panel shows a code? Look it up. The lamp is lit then."
QUERY = "What should I do when the panel shows APP_w304?"
MODEL = "embed: {model: 'own:pieces'}\nmodels: {'own:pieces': {backend: 'vectors:Model'}}\n"
ENTRIES = "chunk: {by: entries, pattern: '^APP_w[0-9]{3}$'}\n"


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of codes, cut into its entries, beside a page that speaks as questions do."""
    texts = {"codes.md": LIST, "cover.md": COVER}
    return make_project(tmp_path_factory.mktemp("e"), texts, MODEL + ENTRIES, vectors=PIECES)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a PDF with one code on each page after the cover."""
    pages = [COVER, *(f"{code} means that {meaning}." for code, meaning in CODES.items())]
    texts, chosen = {"manual.pdf": pdf_of(*pages)}, MODEL + "chunk: {by: page}\n"
    return make_project(tmp_path_factory.mktemp("book"), texts, chosen, vectors=PIECES)


def find(folder: Path, query: str, *words: str, **values: object) -> Any:
    return read_json(folder, "retrieve", query, *words, *settings(**values))


def test_e1_a_query_that_names_a_code_finds_its_page(book: Path) -> None:
    dense = find(book, QUERY, retrieve__search="dense")["hits"]
    assert dense[0]["page"] == 1, "the cover is nearer than the page of the code"
    best = find(book, QUERY)["hits"][0]
    assert (best["page"], best["source"]) == (2, "docs/manual.pdf")
    assert "accelerator pedal" in best["text"]
    for at, code in enumerate(CODES, 2):
        assert find(book, f"What does {code} mean?", "-k", "1")["hits"][0]["page"] == at


def test_e1_the_tokens_and_the_nearest_sentences_show_why(book: Path) -> None:
    told = find(book, QUERY, "--explain", retrieve__search="dense")
    explained, wrong = told["explanation"], told["hits"][0]["chunk_id"]
    pieces = explained["pieces"]
    code = pieces.index("ap")
    assert pieces[code : code + 6] == ["ap", "##p", "##_", "##w", "##30", "##4"]
    assert explained["seen"][wrong][:3] == ["what", "should", "i"]
    right = next(hit["chunk_id"] for hit in told["hits"] if hit["page"] == 2)
    assert explained["seen"][right][:6] == pieces[code : code + 6]
    score, sentence = explained["nearest"][wrong][0]
    assert sentence == "What should I do when the panel shows a code?"
    assert score > max(near for near, _ in explained["nearest"][right])
    shown = ragwright(book, "retrieve", QUERY, "--explain").stdout
    assert lacking(shown, "##30", f"near the query: {score:.3f} {sentence}") == []


def test_e1_entries_by_pattern_are_one_chunk_for_each_code(manual: Path) -> None:
    hits = find(manual, "APP", "-k", "20", retrieve__search="keyword")["hits"]
    assert sorted(hit["text"].split()[0] for hit in hits) == sorted(CODES)
    assert all(hit["text"].count("APP_") == 1 for hit in hits)
    for code, meaning in CODES.items():
        best = find(manual, f"What does {code} mean?", "-k", "1")["hits"][0]
        assert best["text"].startswith(code)
        assert meaning.capitalize() in best["text"]


def test_e2_keyword_search_keeps_codes_whole(manual: Path) -> None:
    told = find(manual, "app_W304", "--explain", retrieve__search="keyword")
    terms = {term["token"]: term["chunks"] for term in told["explanation"]["terms"]}
    assert (terms["app_w304"], terms["app"]) == (1, len(CODES))
    best, *others = told["hits"]
    assert best["text"].startswith("APP_w304")
    assert "app_w304" in told["explanation"]["matched"][best["chunk_id"]]
    assert all(told["explanation"]["matched"][hit["chunk_id"]] == ["app"] for hit in others)
    parts = find(manual, "w304", retrieve__search="keyword")["hits"]
    assert [hit["text"][:8] for hit in parts] == ["APP_w304"], "found by a part of it, too"
    assert find(manual, "APP_w999", retrieve__search="keyword")["notes"], "an unknown code is told"


@pytest.mark.parametrize(("keyword", "dense"), [(1.0, 1.0), (2.0, 0.5)])
def test_e3_reciprocal_rank_fusion(manual: Path, keyword: float, dense: float) -> None:
    chosen = {"retrieve__weights__keyword": keyword, "retrieve__weights__dense": dense}
    hits = find(manual, QUERY, "-k", "8", retrieve__fusion="rrf", **chosen)["hits"]
    assert len(hits) == 8
    share = {"keyword": keyword, "dense": dense}
    summed = [
        sum(share[name] / (60 + found["rank"]) for name, found in hit["channels"].items())
        for hit in hits
    ]
    assert [hit["score"] for hit in hits] == pytest.approx(summed, abs=1e-6)
    assert summed == sorted(summed, reverse=True)
    ranks = {found["rank"] for hit in hits for found in hit["channels"].values()}
    assert min(ranks) == 1, "ranks begin with 1"
    for channel in ("keyword", "dense"):
        alone = find(manual, QUERY, "-k", "8", retrieve__search=channel)["hits"]
        places = {hit["chunk_id"]: hit["rank"] for hit in alone}
        fused = {h["chunk_id"]: h["channels"].get(channel, {}).get("rank") for h in hits}
        assert {key: fused[key] for key in places} == places


def test_e4_words_unknown_to_the_model_move_weight_to_keywords(manual: Path) -> None:
    weights = {}
    for query in ("Why is the lamp lit?", QUERY, "APP_w304"):
        told = find(manual, query, "--explain")["explanation"]
        weights[query] = told["weights"]
        assert sum(told["weights"].values()) == pytest.approx(1)
        assert f"keyword {told['weights']['keyword']:.2f}" in told["reason"]
    plain, mixed, code = (weights[query]["keyword"] for query in weights)
    assert plain < mixed < code
    assert plain == pytest.approx(0.2), "the share of the settings where all words are known"
    assert code > 0.5


def test_e5_a_glossary_adds_the_meaning_given_or_mined(manual: Path) -> None:
    (manual / "glossary.yaml").write_text("APP_w304: accelerator pedal sensor\n")
    plain = find(manual, "APP_w304", retrieve__search="dense")["hits"]
    for glossary, meaning in (("glossary.yaml", "accelerator"), ("corpus", "The accelerator")):
        asked = {"retrieve__query__methods": "[glossary]", "retrieve__glossary": glossary}
        told = find(manual, "APP_w304", retrieve__search="dense", **asked)
        assert told["hits"][0]["text"].startswith("APP_w304")
        assert told["hits"][0]["score"] > plain[0]["score"]
        assert any(note.startswith(f"glossary: APP_w304 = {meaning}") for note in told["notes"])


def test_e7_every_answer_shows_the_sources_to_check_it(book: Path) -> None:
    with ScriptedServer("The brake light switch does not respond [1].") as server:
        chosen = settings(answer__model=f"{server.url}#writer")
        answer = read_json(book, "ask", "What does APP_w305 mean?", *chosen)["answers"][0]
        text = ragwright(book, "ask", "What does APP_w305 mean?", *chosen).stdout
    assert answer["text"] == "The brake light switch does not respond [1]."
    [shown] = answer["citations"]
    assert (shown["marker"], shown["source"], shown["page"]) == (1, "docs/manual.pdf", 3)
    hit = next(hit for hit in answer["hits"] if hit["chunk_id"] == shown["chunk_id"])
    assert hit["start"] <= shown["start"] < shown["end"] <= hit["end"]
    cited = hit["text"][shown["start"] - hit["start"] : shown["end"] - hit["start"]]
    assert "brake light switch" in cited
    assert lacking(text, "[1] docs/manual.pdf", "page 3") == []
