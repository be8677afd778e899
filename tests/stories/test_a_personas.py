"""Stories A1 to A14: questions answered for two teams from one store, and measured."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import pytest
from command_line import ragwright
from own_embedders import FOURS
from story_tools import (
    csv_rows,
    embedded,
    lacking,
    make_project,
    playing,
    prompts_of,
    read_json,
    write_files,
    write_rows,
)
from web_sources import READERS, web_sources

from ragwright.testing import Reply, ScriptedServer, ServerRequest

FACTS = {
    "pump": "oil the pump every spring",
    "valve": "close the valve slowly",
    "rotor": "balance the rotor on the bench",
    "flange": "tighten the flange crosswise",
    "gasket": "replace the gasket at once",
    "nozzle": "rinse the nozzle in warm water",
    "piston": "clean the piston with paraffin",
    "spring": "leave the spring alone",
}
TEAMS = ("engineer", "marketing")
QUESTION = "What must be done with the valve?"
JUDGED = ("ContextRelevance", "Faithfulness", "AnswerRelevance", "Pairwise")
PARTS = (
    *("role", "tailor", "ignore_debris", "only_context", "cite", "key_information"),
    *("insufficient", "readable_sentences", "persona_length", "persona_style"),
    *("no_extraneous", "answer_language", "context", "question"),
)
MOODS: Counter[str] = Counter()
MARKERS = ("instruction_open", "instruction_close", "assistant_cue")


def played(request: ServerRequest) -> str | Reply:
    """A writer that quotes its passages, judges that draw their scores, and vectors of words."""
    body = request.body
    if "input" in body:
        return Reply()
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    asked = re.findall(r"with the (\w+)\?", prompt)
    if body["model"] == "judge-fickle" and asked[-1] == "valve":
        return "It depends."
    if body["model"] == "moody":
        MOODS[prompt] += 1
        return json.dumps({"reasoning": "By mood.", "score": 3 + MOODS[prompt] % 2})
    if body["model"] == "by-words":
        good = "as the manual says" in prompt
        return json.dumps({"reasoning": "By words.", "score": 5 if good else 2})
    if "judge" in body["model"]:
        score = 1 + zlib.crc32(f"{body['model']} {prompt}".encode()) % 5
        return json.dumps({"reasoning": "A hash.", "score": score})
    said = re.findall(rf"You must ([^.]*\b{asked[-1]}\b[^.]*)\.", prompt)
    more = ", as the manual says" if body["model"] == "careful" else ""
    return f"You must {said[0]}{more} [1]." if said else "The passages do not answer this question."


server = playing(played)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    """Six facts in one manual; each is asked for by two teams, with a gold answer for each."""
    text = "".join(f"## The {word}\n\nYou must {fact}.\n\n" for word, fact in FACTS.items())
    chosen = (
        f"models: {{m: {{base: '{server.url}'}}}}\n"
        "embed: {model: 'm:words', dimensions: 64}\nanswer: {model: 'm:writer'}\n"
        "judge: {model: 'm:judge'}\n"
        "chunk: {by: headings, size: 60, overlap: 0}\nretrieve: {top_k: 2}\n"
    )
    folder = make_project(tmp_path_factory.mktemp("shop"), {"manual.md": text}, chosen)
    rows = [
        {"id": f"{word}-{team}", "user_input": f"What must be done with the {word}?",
         "persona_name": team, "reference": f"{fact}, says the {team}",
         "reference_contexts": [f"You must {fact}."]}
        for word, fact in FACTS.items() for team in TEAMS
    ]  # fmt: skip
    write_rows(folder / "rows.jsonl", rows)
    return folder


@pytest.fixture(scope="module")
def run(shop: Path) -> dict[str, Any]:
    """An evaluation of three questions by all judged measures, with every row."""
    words = ("--measures", ",".join([*JUDGED, "Comprehensive"]), "--by", "persona_name", "--rows")
    few = ("--testset", "rows.jsonl", "--limit", "3", "--name", "base")
    return dict(read_json(shop, "eval", *words, *few))


def ids(rows: list[Any]) -> list[str]:
    return [str(row["id"]) for row in rows]


def test_a1_every_kind_of_source_keeps_title_address_and_page(tmp_path: Path) -> None:
    with web_sources(tmp_path / "site") as site:
        chosen = (
            f"sources:\n- notes.md\n- {site}/lamps.html\n"
            "- {source: 'wikipedia:Bicycle pump', reader: 'places:Wiki'}\n"
            "- {source: 'arxiv:2401.01234', reader: 'places:Arxiv'}\n"
            "fetch: {open_networks: [127.0.0.0/8]}\nchunk: {by: page}\n"
        )
        places, notes = READERS.format(base=site), "# My notes\n\nBolts are made of steel.\n"
        files = {"notes.md": notes, "places.py": places, "ragwright.yaml": chosen}
        write_files(tmp_path, files)
        report = read_json(tmp_path, "ingest")
        assert (report["documents"]["added"], report["failures"]) == (4, [])
        found = {}
        for query in ("bolts", "lamp", "tyres", "whales"):
            hit = read_json(tmp_path, "retrieve", query, "-k", "1")["hits"][0]
            found[query] = (hit["title"], hit["source"], hit["page"])
    assert found == {
        "bolts": ("My notes", "notes.md", None),
        "lamp": ("Lamps", f"{site}/lamps.html", None),
        "tyres": ("Bicycle pump", "https://en.wikipedia.org/wiki/Pump", None),
        "whales": ("Pumps that learn", f"{site}/abs/2401.01234v1", 2),
    }


def test_a2_chunks_have_a_size_in_tokens_and_overlap(tmp_path: Path) -> None:
    words = [f"item n{number:03}" for number in range(100)]
    chosen = "sources: [list.txt]\nchunk: {size: 20, overlap: 5, slack: 0}\nretrieve: {top_k: 50}\n"
    files = {"list.txt": " ".join(words), "toy.py": FOURS, "ragwright.yaml": chosen}
    write_files(tmp_path, files)
    assert read_json(tmp_path, "ingest")["chunks"]["added"] == 13  # (200 - 5) / (20 - 5)
    hits = sorted(read_json(tmp_path, "retrieve", "item")["hits"], key=lambda hit: hit["start"])
    cut = [hit["text"].split() for hit in hits]
    assert {len(words) for words in cut} == {20}
    assert all(left[-5:] == right[:5] for left, right in pairwise(cut))
    # Tokens are the embedder's own; a chunk longer than its window is pooled, or refused.
    toy = ("--set", "embed.model=own:toy", "--set", "models.own:toy.backend=toy:Toy")
    plain = [*toy, "--set", "chunk.head.title=false", "--set", "chunk.overlap=0"]
    for size in (8, 100):
        own = [*plain, "--set", f"chunk.size={size}"]
        ragwright(tmp_path, "ingest", "-q", *own)
        hits = read_json(tmp_path, "retrieve", "item", *own)["hits"]
        assert 899 // (4 * size) < len(hits) < 35
        assert 4 * size - 2 < max(len(hit["text"]) for hit in hits) < 4 * size + 2
    refuse = (*own, "--set", "embed.long_texts=refuse", "--set", "embed.query_prefix=q")
    report = ragwright(tmp_path, "ingest", *refuse, code=1)
    assert "100 tokens" in report.stdout + report.stderr


def test_a3_query_and_corpus_share_the_embedder(shop: Path, server: ScriptedServer) -> None:
    before = len(server.requests)
    said = ragwright(shop, "retrieve", "pump", "--set", "embed.model=m:other", code=1).stderr
    assert lacking(said, "nothing is indexed", "m:other") == []
    query = ("--set", "embed.query_prefix=query: ")
    assert "identity" in ragwright(shop, "retrieve", "pump", *query, code=1).stderr
    assert not embedded(server, before)
    both = (*query, "--set", "embed.passage_prefix=passage: ")
    assert read_json(shop, "ingest", *both)["chunks"]["embedded"] == 8
    ragwright(shop, "retrieve", "pump", *both)
    texts = embedded(server, before)
    assert texts[-1] == "query: pump"
    assert all(text.startswith("passage: ") for text in texts[:-1])


def test_a3_vectors_are_kept_by_embedder_and_text(shop: Path, server: ScriptedServer) -> None:
    before = len(server.requests)
    (shop / "docs/copy.md").write_text((shop / "docs/manual.md").read_text("utf-8"), "utf-8")
    report = read_json(shop, "ingest")
    assert (report["documents"]["added"], report["chunks"]["added"]) == (1, 8)
    assert report["chunks"]["embedded"] == 0
    (shop / "docs/copy.md").unlink()
    assert read_json(shop, "ingest", "--prune")["documents"]["removed"] == 1
    (shop / "docs/manual.md").rename(shop / "docs/moved.md")
    assert read_json(shop, "ingest", "--prune")["documents"]["removed"] == 1
    (shop / "docs/moved.md").rename(shop / "docs/manual.md")
    report = read_json(shop, "ingest", "--prune")
    assert (report["documents"]["added"], report["chunks"]["embedded"]) == (1, 0)
    assert not embedded(server, before)


def test_a4_top_k_and_the_mean_similarity_of_the_chunks(shop: Path) -> None:
    dense = ("--set", "retrieve.search=dense")
    hits = read_json(shop, "retrieve", QUESTION, "-k", "3", *dense)["hits"]
    assert len(hits) == 3
    words = ("--testset", "rows.jsonl", "--measures", "ChunkScore", "--rows")
    for top_k in (1, 3):
        found = read_json(shop, "eval", *words, *dense, "--set", f"retrieve.top_k={top_k}")
        [row] = [row for row in found["rows"] if row["id"] == "valve-engineer"]
        mean = fmean(hit["score"] for hit in hits[:top_k])
        assert row["ChunkScore"] == pytest.approx(mean, abs=1e-4)
        assert (row["chunk_score"], len(row["retrieved_contexts"])) == (row["ChunkScore"], top_k)


def test_a5_generator_and_judge_are_settings(shop: Path, server: ScriptedServer) -> None:
    for writer, judge in (("writer", "judge"), ("careful", "judge-two")):
        before = len(server.requests)
        models = ("--set", f"answer.model=m:{writer}", "--set", f"judge.model=m:{judge}")
        words = ("--testset", "rows.jsonl", "--measures", "Faithfulness", "--limit", "1", "--rows")
        found = read_json(shop, "eval", *words, *models, "--no-cache")
        assert {row["model"] for row in found["rows"]} == {f"m:{writer}"}
        bodies = [request.body for request in server.requests[before:]]
        assert {body["model"] for body in bodies if "messages" in body} == {writer, judge}


PERSONA = """\
name: driver
audience: people who drive
technical_density: none at all
language_complexity: words of one syllable
answer_length: one line
writing_style: cheerful
extra_instructions: Wish them a good trip.
model: m:own
"""


def test_a6_personas_are_data_and_answered_side_by_side(shop: Path, server: ScriptedServer) -> None:
    write_files(shop, {"personas/driver.yaml": PERSONA})
    before = len(server.requests)
    words = ("--personas", "engineer,marketing,driver", "--no-cache")
    answers = read_json(shop, "ask", QUESTION, *words)["answers"]
    assert [one["persona"] for one in answers] == ["engineer", "marketing", "driver"]
    assert [one["model"] for one in answers] == ["m:writer", "m:writer", "m:own"]
    for one in answers:
        assert one["text"] == "You must close the valve slowly [1]."
        assert one["abstained"] is False
        assert [c["document_id"] for c in one["citations"]] == ["docs/manual.md"]
    prompts = prompts_of(server, before, "writer", "own")
    [driver] = [prompt for prompt in prompts if "people who drive" in prompt]
    for line in PERSONA.splitlines()[1:-1]:
        assert line.partition(": ")[2] in driver
    teams = {"engineering": "acronyms are welcome", "marketing": "spell out acronyms"}
    for team, line in teams.items():
        assert [line in prompt for prompt in prompts if f"{team} team" in prompt] == [True]


def template(shop: Path) -> tuple[str, str]:
    """A template whose parts say their names; gives the flag for it."""
    parts = {part: f"<{part}>" for part in PARTS}
    parts |= {"context": "<context>{{ passages[0].text }}", "question": "<question>{{ question }}"}
    marks = {mark: f"<{mark}>" for mark in MARKERS}
    text = json.dumps({"parts": parts, "turn_markers": marks})
    write_files(shop, {"prompts/marks.yaml": text})
    return "--set", "prompt.template=prompts/marks.yaml"


def marks_of(shop: Path, server: ScriptedServer, *settings: str) -> list[str]:
    """The marked parts of the prompt that a model gets under some settings, in order."""
    before = len(server.requests)
    named = [word for setting in settings for word in ("--set", setting)]
    words = ("ask", QUESTION, "--persona", "engineer", "--no-cache", "-q")
    ragwright(shop, *words, *template(shop), *named)
    [prompt] = prompts_of(server, before, "writer")
    return re.findall(r"<(\w+)>", prompt)


COMPLETE = ["instruction_open", *PARTS, "instruction_close", "assistant_cue"]


def test_a7_parts_are_left_out_swapped_and_replaced(shop: Path, server: ScriptedServer) -> None:
    assert marks_of(shop, server) == COMPLETE
    for part in PARTS[:-2]:
        left = [mark for mark in COMPLETE if mark != part]
        assert marks_of(shop, server, f"prompt.without=[{part}]") == left
    swapped = marks_of(shop, server, "prompt.swap=[[context, question]]")
    assert swapped == [*COMPLETE[:13], "question", "context", *COMPLETE[15:]]
    first = marks_of(shop, server, "prompt.order=[no_extraneous, role]")
    assert first[1:4] == ["no_extraneous", "role", "tailor"]
    few = marks_of(shop, server, "prompt.parts=[role, context, question]")
    assert few == ["role", "context", "question"]
    replaced = marks_of(shop, server, "prompt.replace={role: '<mine>'}")
    assert replaced == [mark.replace("role", "mine") for mark in COMPLETE]


DETAILS = set(PARTS) - {"role", "tailor", "context", "question"}
PRESETS: dict[str, set[str]] = {
    "complete": set(),
    **{f"without_{part}": {f"persona_{part}"} for part in ("length", "style")},
    **{f"without_{part}": {part} for part in ("ignore_debris", "only_context", "insufficient")},
    **{f"without_{part}": {part} for part in ("readable_sentences", "no_extraneous")},
    "without_assistant_cue": {"assistant_cue"},
    "without_persona_instructions": {"persona_length", "persona_style"},
    "without_persona_and_tailor": {"tailor", "persona_length", "persona_style"},
    "without_instruction_tokens": {"instruction_open", "instruction_close"},
    "without_turn_markers": set(MARKERS),
    "role_and_tailor_only": DETAILS,
    "without_instructions": {"tailor", *DETAILS},
}


def test_a8_each_published_ablation_is_one_name(shop: Path, server: ScriptedServer) -> None:
    for preset, gone in PRESETS.items():
        left = [mark for mark in COMPLETE if mark not in gone]
        assert marks_of(shop, server, f"prompt.preset={preset}") == left, preset
    swapped = marks_of(shop, server, "prompt.preset=question_before_context")
    assert swapped == [*COMPLETE[:13], "question", "context", *COMPLETE[15:]]
    said = ragwright(shop, "ask", "x", "--set", "prompt.preset=without_stile", code=1).stderr
    assert "without_style" in said


def test_a9_four_measures_are_judged_by_rubrics(run: dict[str, Any], server: Any) -> None:
    assert len(run["rows"]) == 6
    for row in run["rows"]:
        assert row["Comprehensive"] == pytest.approx(fmean(row[name] for name in JUDGED))
        assert all(1 <= row[name] <= 5 for name in JUDGED)
    bodies = [request.body for request in server.requests]
    prompts = {one["messages"][0]["content"] for one in bodies if one["model"] == "judge"}
    assert len(prompts) == 4
    for prompt in prompts:
        assert [level[0] for level in re.findall(r"^[1-5]: .{15,}", prompt, re.M)] == list("12345")
        examples = [int(score) for score in re.findall(r'"reasoning": .+"score": ([1-5])}', prompt)]
        assert max(examples) >= 4
        assert min(examples) <= 2


def test_a10_a_reply_without_a_score_is_invalid_and_counted(shop: Path) -> None:
    words = ("--testset", "rows.jsonl", "--measures", "Faithfulness", "--rows")
    found = read_json(shop, "eval", *words, "--set", "judge.model=m:judge-fickle", code=None)
    scores = found["measures"]["Faithfulness"]
    assert scores["states"] == {"judge_invalid": 2, "scored": 14}
    assert (scores["n"], scores["coverage"]) == (14, pytest.approx(14 / 16))
    valid = [row["Faithfulness"] for row in found["rows"] if row["Faithfulness"] is not None]
    assert scores["mean"] == pytest.approx(fmean(valid))
    bad = [row for row in found["rows"] if row["Faithfulness state"] == "judge_invalid"]
    assert ids(bad) == ["valve-engineer", "valve-marketing"]
    assert all("It depends." in row["Faithfulness reason"] for row in bad)


def test_a11_gold_belongs_to_a_persona_and_a_seed_draws_a_subset(shop: Path) -> None:
    words = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--retrieval-only", "--rows")
    few = ("eval", *words, "--limit", "2", "--seed")
    drawn = [ids(read_json(shop, *few, seed)["rows"]) for seed in ("1", "1", "2", "3", "4")]
    for one in drawn:
        questions = {row.partition("-")[0] for row in one}
        assert len(questions) == 2
        assert sorted(one) == sorted(f"{word}-{team}" for word in questions for team in TEAMS)
    assert drawn[0] == drawn[1]
    assert len(set(map(tuple, drawn))) > 1
    rows = read_json(shop, "eval", *words)["rows"]
    for team, row in zip(TEAMS, rows, strict=False):
        assert row["reference"] == f"oil the pump every spring, says the {team}"


def test_a12_results_are_tables_rows_and_charts(shop: Path, run: dict[str, Any]) -> None:
    for team in ("", *TEAMS):
        rows = [row for row in run["rows"] if team in ("", row["persona_name"])]
        values = [row["Faithfulness"] for row in rows]
        group = run["slices"]["persona_name"][team] if team else run["measures"]
        found = group["Faithfulness"]
        assert found["n"] == len(values) == (3 if team else 6)
        assert (found["mean"], found["median"]) == (pytest.approx(fmean(values)), median(values))
        assert found["sd"] == pytest.approx(stdev(values))
        assert found["histogram"] == {str(n): values.count(n) for n in range(1, 6)}
    row = run["rows"][0]
    assert row["user_input"].startswith("What must be done")
    assert row["response"].startswith("You must")
    assert row["reference"].endswith(row["persona_name"])
    ragwright(shop, "review", "base", "--measures", "Faithfulness", "-o", "sheet.csv")
    sheet = csv_rows(shop / "sheet.csv")
    assert len(sheet) == 6
    assert not {"model", "persona_name", "run"} & set(sheet[0])
    assert sheet[0]["Faithfulness (1-5)"] == ""
    assert "5: " in sheet[0]["levels"]
    key = json.loads((shop / "sheet.key.json").read_text("utf-8"))
    assert sorted(row for _, row in key["answers"].values()) == sorted(ids(run["rows"]))
    charts = read_json(shop, "report", "base")["charts"]
    assert f"personas-{run['run']}" in charts
    bars = {row[0]: int(row[1]) for row in charts["histogram-Faithfulness"]["table"]["rows"]}
    assert bars == run["measures"]["Faithfulness"]["histogram"]
    ragwright(shop, "score", "base", "-q", "--measures", "TokenF1", "-o", "rows.csv")
    lines = csv_rows(shop / "rows.csv")
    assert ids(lines) == ids(run["rows"])
    assert [line["persona_name"] for line in lines] == [*TEAMS] * 3
    ragwright(shop, "score", "base", "-q", "--measures", "TokenF1", "-o", "rows.questions.json")
    questions = json.loads((shop / "rows.questions.json").read_text("utf-8"))
    assert [one["user_input"] for one in questions] == list(
        dict.fromkeys(line["user_input"] for line in lines)
    )
    inside = [(row["id"], row["TokenF1"]) for one in questions for row in one["personas"]]
    assert inside == [(line["id"], pytest.approx(float(line["TokenF1"]))) for line in lines]


STUDY = """\
study:
  testset: rows.jsonl
  measures: Comprehensive, ContextRelevance, Faithfulness, AnswerRelevance, Pairwise
  objective: Comprehensive
  limit: 1
  search: random
  trials: 12
chunk: {by: tokens, size: [20, 60], overlap: [0, 5]}
embed: {model: ['m:words', 'm:other']}
retrieve: {top_k: [1, 2]}
answer: {model: ['m:writer', 'm:careful']}
judge: {model: ['m:judge', 'm:judge-two']}
prompt: {preset: [complete, without_style]}
"""


def test_a13_seven_parameters_are_searched_and_ranked_within_one_judge(shop: Path) -> None:
    (shop / "seven.yaml").write_text(STUDY, "utf-8")
    assert read_json(shop, "sweep", "seven.yaml")["objective"] == "Comprehensive"
    report = read_json(shop, "report", "seven")
    means = {one["id"]: one["measures"]["Comprehensive"]["mean"] for one in report["entries"]}
    values = {one["id"]: one["values"] for one in report["entries"]}
    assert len(means) >= 12
    assert all(len(one) == 7 for trial, one in values.items() if trial != "T000")
    judges = [board["judge"] for board in report["boards"]]
    assert judges == ["judge.model = m:judge", "judge.model = m:judge-two"]
    for board in report["boards"]:
        ranked = [means[trial] for trial in board["entries"]]
        assert ranked == sorted(ranked, reverse=True)
        said = {f"judge.model = {values[trial].get('judge.model')}" for trial in board["entries"]}
        assert said <= {board["judge"], "judge.model = None"}
    assert {"key-chunk-size", "key-retrieve-top_k"} <= set(report["charts"])
    table = report["charts"]["keys-and-measures"]["table"]
    assert table["head"][2] == "Spearman's rho"
    related = {(row[0], row[1].partition(" = ")[0]) for row in table["rows"]}
    assert ("Comprehensive", "retrieve.top_k") in related
    assert ("Faithfulness", "chunk.size") in related
    assert all(-1 <= float(row[2]) <= 1 for row in table["rows"])


def test_a14_the_generator_of_a_persona_and_a_judge_s_spread(shop: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shop, tmp_path / "own"))
    words = ("--testset", "rows.jsonl", "--measures", "Faithfulness")
    models = ("--compare-models", "m:writer,m:careful", "--personas", "engineer")
    found = read_json(folder, "diagnose", *words, *models, "--set", "judge.model=m:by-words")
    cells = {(one["persona"], one["generator"]): one["mean"] for one in found["cells"]}
    assert cells == {("engineer", "m:writer"): 2.0, ("engineer", "m:careful"): 5.0}
    assert found["best"] == {"engineer": "m:careful"}
    (folder / "personas").mkdir(exist_ok=True)
    (folder / "personas/engineer.yaml").write_text("audience: engineers\nmodel: m:careful\n")
    [answer] = read_json(folder, "ask", QUESTION, "--personas", "engineer")["answers"]
    assert answer["model"] == "m:careful"
    moody = ("--set", "judge.model=m:moody", "--limit", "2", "--rows")
    again = read_json(folder, "eval", *words, "--repeat", "4", *moody)
    assert {row["Faithfulness"] for row in again["rows"]} == {3.5}
    assert {row["Faithfulness stability"] for row in again["rows"]} == {"flaky"}
    [spread] = [note for note in again["notes"] if "two judgments of one row" in note]
    assert "differ by 0.67 on average (sd 0.58, 4 rows)" in spread  # of 3, 4, 3, 4
