"""Measuring from the command line: answers, given rows, comparison, gates, people."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import ragwright

from ragwright import Workbench, evaluate
from ragwright.testing import ScriptedServer, ServerRequest

TEXTS = {
    "pump.md": "# Pump\n\nThe circulation pump restarts once the winding has cooled down.\n",
    "valve.md": "# Valve\n\nThe mixing valve closes when the floor is warmer than 50 degrees.\n",
    "tank.md": "# Tank\n\nHot water in the tank is prepared by the clock at six in the morning.\n",
}
ROWS = [
    ("q1", "When does the circulation pump restart?", "once the winding has cooled", "pump.md"),
    ("q2", "When does the mixing valve close?", "when the floor is warmer", "valve.md"),
    ("q3", "When is hot water in the tank prepared?", "at six in the morning", "tank.md"),
]


def run(folder: Path, *words: str, code: int = 0) -> str:
    """Standard output of a command in a folder."""
    return ragwright(folder, *words, code=code).stdout


def test_python_measures_what_the_command_measures(project: Path) -> None:
    told = json.loads(run(project, "eval", "--testset", "set.jsonl", "--json"))
    with Workbench.open(project) as bench:
        evaluation, _ = bench.evaluate(str(project / "set.jsonl"))
    assert [summary.measure for summary in evaluation.summaries] == list(told["measures"])
    assert all(result.row is not None for result in evaluation.results), "rows were answered"


def test_a_missing_testset_fails_before_a_model_is_opened(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("embed: {model: 'st:gone'}\n")
    done = ragwright(tmp_path, "tune", "embedder", "--testset", "missing.jsonl", code=1)
    assert "missing.jsonl" in done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(text)
    (folder / "ragwright.yaml").write_text("sources: [docs]\nretrieve: {top_k: 2}\n")
    run(folder, "ingest", "--quiet")
    hits = json.loads(run(folder, "retrieve", "pump", "--json"))["hits"]
    prefix = hits[0]["document_id"].removesuffix("pump.md")
    lines = [
        {
            "id": key,
            "user_input": asked,
            "reference": gold,
            "reference_ids": [prefix + name],
            "persona_name": "engineer",
            "topic": name,
        }
        for key, asked, gold, name in ROWS
    ]
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.mark.slow
def test_answers_are_written_scored_stored_and_judged_again(project: Path) -> None:
    told = json.loads(
        run(project, "eval", "--testset", "set.jsonl", "--measures", "HitRate@1,Contains", "--json")
    )
    assert told["measures"]["HitRate@1"]["mean"] == 1.0
    assert told["measures"]["Contains"]["n"] == 3
    again = json.loads(
        run(project, "score", told["run"], "--measures", "Contains,KPrecision", "--json")
    )
    assert again["measures"]["Contains"]["mean"] == told["measures"]["Contains"]["mean"]
    assert again["measures"]["KPrecision"]["mean"] == 1.0  # quoted answers stand in the passages
    shown = run(project, "score", told["run"], "--measures", "Contains", "--by", "topic")
    assert "pump.md" in shown
    assert "run:" in shown


@pytest.mark.parametrize("with_model", [False, True])
def test_documents_are_ranked_alike_with_answers_and_without(
    tmp_path: Path, with_model: bool
) -> None:
    """The two passages of an answer are of one document: it is the first of the ranking only."""
    pump = "# Pump\n\nThe pump restarts when cool. The pump restarts when the pump is cool.\n\n"
    pump += "## Again\n\nA pump restarts, and the pump is cool, and the pump restarts again.\n"
    texts = {"pump.md": pump, "motor.md": "# Motor\n\nThe motor also restarts once it is cool.\n"}
    (tmp_path / "docs").mkdir()
    for name, text in {**TEXTS, **texts}.items():
        (tmp_path / "docs" / name).write_text(text)
    settings = {"sources": ["docs"], "chunk": {"size": 20, "overlap": 0}, "retrieve": {"top_k": 2}}
    with ScriptedServer(lambda _: "When it is cool [1].") as server:
        if with_model:
            settings["answer"] = {"model": f"{server.url}#writer"}
        (tmp_path / "ragwright.yaml").write_text(json.dumps(settings))
        run(tmp_path, "ingest", "--quiet")
        hits = json.loads(run(tmp_path, "retrieve", "pump restarts cool", "--json"))["hits"]
        assert {Path(hit["document_id"]).name for hit in hits} == {"pump.md"}
        ids = [hits[0]["document_id"], hits[0]["document_id"].replace("pump", "motor")]
        row = {"id": "1", "user_input": "pump restarts cool", "reference_ids": ids}
        (tmp_path / "set.jsonl").write_text(json.dumps({**row, "reference": "when it is cool"}))
        measures = "Recall@2,Recall@1,nDCG@10,MRR,MAP,Precision@2"
        asked = ("eval", "--testset", "set.jsonl", "--json", "--measures")
        ranked = json.loads(run(tmp_path, *asked, measures, "--retrieval-only"))
        answered = json.loads(run(tmp_path, *asked, measures + ",Contains"))
    again = json.loads(run(tmp_path, "score", answered["run"], "--measures", measures, "--json"))
    for name, measured in ranked["measures"].items():
        for told in (answered, again):
            assert told["measures"][name]["mean"] == measured["mean"], name
    assert answered["measures"]["Recall@2"]["mean"] == 1
    assert answered["measures"]["Contains"]["n"] == 1
    assert not [note for note in answered["notes"] if "top_k" in note]


@pytest.mark.slow
def test_a_limit_draws_questions_with_all_their_personas(project: Path) -> None:
    rows = [
        {"id": f"{key}-{name}", "user_input": asked, "reference": gold, "persona_name": name}
        for key, asked, gold, _ in ROWS
        for name in ("engineer", "marketing")
    ]
    (project / "teams.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("eval", "--testset", "teams.jsonl", "--measures", "Contains", "--limit", "2")
    for seed in range(6):
        by = ("--seed", str(seed), "--by", "persona_name", "--json")
        told = json.loads(run(project, *words, *by))
        assert told["measures"]["Contains"]["n"] == 4
        assert f"2 of 3 questions (4 of 6 rows), chosen with seed {seed}" in told["notes"]
        counts = {
            name: one["Contains"]["n"] for name, one in told["slices"]["persona_name"].items()
        }
        assert counts == {"engineer": 2, "marketing": 2}


@pytest.mark.slow
def test_two_runs_are_compared_and_a_gate_reads_them(project: Path) -> None:
    first = json.loads(
        run(project, "eval", "--testset", "set.jsonl", "--measures", "HitRate@1", "--json")
    )["run"]
    worse = ("--set", "retrieve.filters=[{field: title, values: [Tank]}]")
    second = json.loads(
        run(project, "eval", "--testset", "set.jsonl", "--measures", "HitRate@1", "--json", *worse)
    )["run"]
    told = json.loads(run(project, "compare", first, second, "--json"))
    assert told["measures"]["HitRate@1"]["difference"] == pytest.approx(-2 / 3)
    assert "no change proven" in run(project, "compare", first, "latest")
    run(project, "gate", first, "--rule", "HitRate@1>=0.9", "--least", "3")
    run(project, "gate", second, "--rule", "HitRate@1>=0.9", "--least", "3", code=100)
    run(project, "gate", second, "--rule", "Recall@1>=0.9", code=101)
    run(project, "gate", second, "--rule", "HitRate@1>=baseline", "--baseline", first, code=101)
    run(
        project,
        "gate",
        second,
        "--rule",
        "HitRate@1>=0.9",
        "--least",
        "3",
        "-o",
        "gate.xml",
        code=100,
    )
    suite = ElementTree.parse(project / "gate.xml").getroot()
    assert suite.find(".//failure") is not None


def test_people_score_blind_and_a_measure_is_held_against_them(project: Path) -> None:
    made = json.loads(
        run(project, "eval", "--testset", "set.jsonl", "--measures", "Contains", "--json")
    )["run"]
    run(project, "review", made, "--measures", "Contains", "-o", "sheet.csv")
    with (project / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert made not in json.dumps(rows)
    column = next(name for name in rows[0] if name.startswith("Contains"))
    with (project / "sheet.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, column: "1"} for row in rows)
    words = ("passport", "review:sheet.csv", "--verdicts", made, "--json")
    told = json.loads(run(project, *words))
    assert told["rows"] == 3
    assert told["people"]["Contains"]["mean"]["value"] == 1.0
    assert told["judges"][f"Contains in {made}"]["Contains"]["rows"] == 3


def test_rows_of_another_tool_are_scored_without_a_project(tmp_path: Path) -> None:
    row = {"question": "Who?", "contexts": ["Ada did."], "answer": "Ada", "ground_truth": "Ada"}
    (tmp_path / "ragas.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(row))
    shown = run(tmp_path, "score", "ragas.jsonl")
    assert "TokenF1" in shown
    assert "95 % interval" in shown
    run(tmp_path, "score", "ragas.jsonl", "-o", "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) >= 3
    assert not (tmp_path / ".ragwright").exists()


def test_rows_are_scored_from_python() -> None:
    found = evaluate([{"user_input": "Who?", "response": "Ada", "reference": "Ada"}], "ExactMatch")
    assert found["ExactMatch"].mean == 1.0


def test_what_cannot_be_scored_says_why(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"user_input": "Who?"}))
    run(tmp_path, "score", "rows.jsonl", code=1)
    run(tmp_path, "score", code=1)
    run(tmp_path, "score", "rows.jsonl", "--measures", "Faithfulness", code=1)


def test_measures_are_chosen_by_what_the_project_has(project: Path) -> None:
    told = json.loads(run(project, "eval", "--testset", "set.jsonl", "--json"))
    assert list(told["measures"]) == [
        "nDCG@2",  # as deep as the passages of an answer
        "Recall@2",
        "KPrecision(content+bigrams)",
        "Contains",
        "TokenF1",
    ]
    assert any("Pairwise (no chat model judges" in note for note in told["notes"])
    ranked = json.loads(
        run(project, "eval", "--testset", "set.jsonl", "--retrieval-only", "--json")
    )
    assert list(ranked["measures"]) == ["nDCG@10", "Recall@100", "MRR@10"]
    shown = run(project, "eval", "--testset", "set.jsonl")
    assert max(map(len, shown.splitlines())) <= 100


def test_rankings_are_sliced_by_the_fields_of_the_testset(project: Path) -> None:
    words = ("eval", "--testset", "set.jsonl", "--retrieval-only", "--by", "topic", "--json")
    told = json.loads(run(project, *words))
    assert set(told["slices"]["topic"]) == set(TEXTS)
    assert told["slices"]["topic"]["pump.md"]["MRR@10"]["n"] == 1


def test_a_dry_run_of_scoring_calls_and_stores_nothing(project: Path, tmp_path: Path) -> None:
    row = {"question": "Who?", "contexts": ["Ada did."], "answer": "Ada", "ground_truth": "Ada"}
    for folder in (project, tmp_path):
        (folder / "ragas.jsonl").write_text(json.dumps(row))
        told = json.loads(run(folder, "score", "ragas.jsonl", "--dry-run", "--json"))
        assert told["calls"] == {"low": 0, "expected": 0, "high": 0}
    run(tmp_path, "score", "ragas.jsonl", "--dry-run", "--measures", "Faithfulness", code=1)
    run(tmp_path, "score", "ragas.jsonl", "--set", "judge.model=x", code=1)


def test_an_empty_answer_is_scored(tmp_path: Path) -> None:
    row = {"question": "Who?", "contexts": ["Ada did."], "answer": "", "ground_truth": "Ada"}
    (tmp_path / "ragas.jsonl").write_text(json.dumps(row))
    told = json.loads(run(tmp_path, "score", "ragas.jsonl", "--json"))["measures"]
    assert (told["TokenF1"]["mean"], told["TokenF1"]["n"]) == (0.0, 1)
    assert told["KPrecision(content+bigrams)"]["coverage"] == 0.0


def test_a_wrong_answer_of_the_readme_is_not_wholly_grounded(tmp_path: Path) -> None:
    row = {"question": "How often?", "contexts": ["Every two years."], "answer": "Once a year."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    told = json.loads(run(tmp_path, "score", "rows.jsonl", "--json"))["measures"]
    assert told["KPrecision(content+bigrams)"]["mean"] == 0.5


def rows_file(folder: Path, rows: list[dict[str, object]]) -> Path:
    (folder / "ragwright.yaml").write_text("{}\n")
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_two_abstentions_are_no_mean(tmp_path: Path) -> None:
    row = {"user_input": "Who?", "response": "", "abstained": True, "reference": "Ada"}
    folder = rows_file(tmp_path, [{"id": "a", **row}, {"id": "b", **row}])
    words = ("score", "rows.jsonl", "--measures", "EditDistance,TokenF1", "--json")
    told = json.loads(run(folder, *words, code=101))
    for measure in told["measures"].values():
        assert (measure["n"], measure["mean"], measure["mean_with_abstained"]) == (0, None, None)
    assert (told["outcome"]["answered"], told["outcome"]["abstained"]) == (0, 2)
    run(folder, "report", "latest", "-o", "page.html", "-q")
    page = (folder / "page.html").read_text("utf-8")
    assert "None of the 2 rows has a score." in page


def test_a_judge_that_fails_is_no_system_that_fails(tmp_path: Path) -> None:
    said = {"a": 5, "b": 3, "c": None}
    rows: list[dict[str, object]] = [
        {"id": key, "user_input": f"Who is {key}?", "response": f"Ada {key}"}
        | {"retrieved_contexts": [f"Ada {key} did."]}
        for key in said
    ]

    def judged(request: ServerRequest) -> str:
        text = json.dumps(request.body["messages"])
        key = next(key for key in said if f"Ada {key} did." in text)
        return "Hm." if said[key] is None else json.dumps({"reasoning": "So.", "score": said[key]})

    folder = rows_file(tmp_path, rows)
    with ScriptedServer(judged) as server:
        judge = ("--set", f"judge.model={server.url}#judge")
        words = ("score", "rows.jsonl", "--measures", "Faithfulness", *judge)
        shown = " ".join(run(folder, *words).split())
        told = json.loads(run(folder, *words, "--json"))
    assert shown.startswith("outcome rows")
    assert "answered 3 of 3" in shown
    assert "judge_invalid 1; with their scores the mean is 3.0000 to 4.3333" in shown
    assert told["measures"]["Faithfulness"]["judge_range"] == pytest.approx([3.0, 13 / 3])
    assert next(iter(told)) == "outcome"
    text = run(folder, "report", "latest", "--json")
    verdict = json.loads(text)["verdict"]["headline"]
    assert "judge_invalid 1; with their scores the mean is 3.0000 to 4.3333" in verdict
    assert "Without an answer" not in verdict


def test_an_evaluation_opens_with_what_became_of_the_questions(tmp_path: Path) -> None:
    def row(key: str, response: str, answerable: bool) -> dict[str, object]:
        marks = {"reference": "Ada", "answerable": answerable, "retrieved_contexts": ["It is Ada."]}
        return {"id": key, "user_input": "Who?", "response": response, **marks}

    said = [("Ada", True), ("I don't know.", True), ("I don't know.", False), ("Ada", False)]
    folder = rows_file(tmp_path, [row(f"r{at}", *each) for at, each in enumerate(said)])
    told = json.loads(run(folder, "score", "rows.jsonl", "--json"))
    counts = {name: value for name, value in told["outcome"].items() if value}
    assert counts == {
        "rows": 4,
        "answered": 2,
        "abstained": 2,
        "unanswerable": 2,
        "answerable": 2,
        "rightly_refused": 1,
        "wrongly_answered": 1,
        "wrongly_refused": 1,
    }
    for name in ("RejectionRate", "FalseRejectionRate"):
        assert told["measures"][name]["mean"] == 0.5
    text = " ".join(run(folder, "score", "rows.jsonl").split())
    assert "rightly refused 1 of 2 answered although nothing answers 1 of 2" in text
    assert "KPrecision: 2 of 4 answers are quotes" not in text
    run(folder, "report", "latest", "-o", "page.html", "-q")
    page = (folder / "page.html").read_text("utf-8")
    assert page.index("answered although nothing answers") < page.index('<dl class="facts">')
    assert '<h1 class="verdict plain" dir="auto">' in page
    assert "Contains (0-1) is 0." in page, "the measure that sees references leads"


def test_quotes_are_said_to_be_grounded_by_construction(project: Path) -> None:
    told = json.loads(run(project, "eval", "--testset", "set.jsonl", "--json"))
    assert any("are quotes of their passages" in note for note in told["notes"])


def test_citations_are_measured_against_gold_passages(tmp_path: Path) -> None:
    said = {
        "both": "It is Ada [1], and Bo [2].",
        "half": "It is Ada [1][3].",
        "unknown": "It is Ada [1], see [9].",
        "index": "The first one is arr[0], and `arr[1]` follows.",
        "unread": "It is Cy [3].",
    }
    gold = {"retrieved_context_ids": ["a", "b", "c"], "reference_ids": {"a": 1, "b": 1, "c": 0}}
    rows: list[dict[str, object]] = [
        {"id": key, "user_input": "Who?", "response": text, **gold} for key, text in said.items()
    ]
    folder = rows_file(tmp_path, rows)
    words = ("score", "rows.jsonl", "--measures", "CitationPrecision,CitationRecall")
    told = json.loads(run(folder, *words, "--json", "--rows"))["rows"]
    found = {row["id"]: (row["CitationPrecision"], row["CitationRecall"]) for row in told}
    expected = {"both": (1, 1), "half": (0.5, 0.5), "unknown": (0.5, 0.5), "unread": (0, 0)}
    assert found == {**expected, "index": (None, 0)}


def test_the_citations_of_the_project_are_measured_by_their_places(project: Path) -> None:
    hits = json.loads(run(project, "retrieve", ROWS[0][1], "--json"))["hits"]
    at = hits[0]["text"].index(ROWS[0][2])
    span = {"document_id": hits[0]["document_id"], "start": hits[0]["start"] + at}
    span |= {"end": span["start"] + len(ROWS[0][2]), "text": ROWS[0][2]}
    row = {"id": "q", "user_input": ROWS[0][1], "reference_spans": [span]}
    (project / "cited.jsonl").write_text(json.dumps(row))
    measures = ("--measures", "CitationPrecision,CitationRecall", "--json")
    for reply, expected in (("Once it is cold [1].", (1, 1)), ("So it is [1][2] [7].", (1 / 3, 1))):
        with ScriptedServer(reply) as server:
            chosen = ("--set", f"answer.model={server.url}#m")
            told = json.loads(run(project, "eval", "--testset", "cited.jsonl", *measures, *chosen))
        means = [measure["mean"] for measure in told["measures"].values()]
        assert means == pytest.approx(expected)


def test_repeated_judgments_are_stable_or_flaky_and_a_gate_can_ask_for_it(tmp_path: Path) -> None:
    said = {"good": [5, 4], "shaky": [5, 2], "bad": [1, 3]}
    rows: list[dict[str, object]] = [
        {"id": key, "user_input": "Who?", "response": f"Ada {key}", "retrieved_contexts": ["Ada"]}
        for key in said
    ]
    drawn = {key: iter(values) for key, values in said.items()}

    def judged(request: ServerRequest) -> str:
        text = json.dumps(request.body["messages"])
        key = next(key for key in said if f"Ada {key}" in text)
        return json.dumps({"reasoning": "So.", "score": next(drawn[key])})

    folder = rows_file(tmp_path, rows)
    with ScriptedServer(judged) as server:
        judge = ("--repeat", "2", "--set", f"judge.model={server.url}#judge")
        words = ("score", "rows.jsonl", "--measures", "Faithfulness", "--rows", "--json", *judge)
        told = json.loads(run(folder, *words))
    stability = {row["id"]: row["Faithfulness stability"] for row in told["rows"]}
    assert stability == {"good": "stable right", "shaky": "flaky", "bad": "stable wrong"}
    assert told["measures"]["Faithfulness"]["stability"] == dict.fromkeys(stability.values(), 1)
    rule = "flaky(Faithfulness)<="
    assert "1 of 3 repeated rows are flaky" in run(folder, "gate", "latest", "--rule", f"{rule}0.4")
    run(folder, "gate", "latest", "--rule", f"{rule}0.3", code=100)


def test_rows_without_ids_are_paired_by_question_and_occurrence(tmp_path: Path) -> None:
    """The second file has them in another order; of a question asked twice the order counts."""
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    answers = [("When?", "at six"), ("Where?", "in the tank"), ("When?", "at noon"), ("Why?", "no")]
    for name, order in (("a", (0, 1, 2, 3)), ("b", (3, 0, 2, 1))):
        rows = [{"user_input": q, "response": r, "reference": r} for q, r in answers]
        rows[2]["reference"] = "at six"
        lines = [json.dumps(rows[at]) for at in order]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        words = ("--measures", "ExactMatch", "-o", f"{name}-rows.jsonl")
        run(tmp_path, "score", f"{name}.jsonl", *words, "--name", name)
    for pair in (("a", "b"), ("a-rows.jsonl", "b-rows.jsonl")):
        found = json.loads(run(tmp_path, "compare", *pair, "--json"))["measures"]["ExactMatch"]
        assert (found["n"], found["ties"], found["difference"]) == (4, 4, 0)


def test_rankings_of_rows_without_ids_are_paired_by_question(project: Path) -> None:
    rows = [json.loads(line) for line in (project / "set.jsonl").read_text().splitlines()]
    rows[0]["reference_ids"] = rows[1]["reference_ids"]  # not found at the first place
    for name, order in (("there", rows), ("back", rows[::-1])):
        lines = [json.dumps({k: v for k, v in row.items() if k != "id"}) for row in order]
        (project / f"{name}.jsonl").write_text("\n".join(lines))
        words = ("--testset", f"{name}.jsonl", "--measures", "HitRate@1", "--name", name)
        run(project, "eval", *words, "--retrieval-only")
    found = json.loads(run(project, "compare", "there", "back", "--json"))["measures"]["HitRate@1"]
    assert (found["n"], found["ties"]) == (3, 3)


def test_the_thought_in_given_rows_is_no_part_of_the_answer(tmp_path: Path) -> None:
    thought = "<think>It could be noon, or at six in the evening.</think>\n\n"
    rows = [
        {"id": "1", "user_input": "When?", "response": thought + "At six.", "reference": "At six."},
        {"id": "2", "user_input": "Where?", "response": "In the tank.", "reference": "Elsewhere."},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    told = json.loads(run(tmp_path, "score", "rows.jsonl", "--measures", "ExactMatch", "--json"))
    assert told["measures"]["ExactMatch"]["mean"] == 0.5
    assert "left out: the model's thought in the response of 1 row" in told["notes"]
