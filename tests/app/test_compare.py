"""`compare`, `report` and `passport`: runs and files beside each other, judges and people."""

from __future__ import annotations

import csv
import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject
from story_tools import csv_rows, lacking, make_project, playing, read_json, run, write_rows

from ragwright.experiment import list_passports
from ragwright.testing import ScriptedServer, ServerRequest

RUBRIC = """
name: polite
summary: How polite the answer is.
task: Say whether the answer is polite.
needs: [response]
scale: [1, 3]
levels: {1: It is rude., 2: It is dry., 3: It is polite.}
high_example: {response: Thank you., reasoning: It thanks., score: 3}
low_example: {response: Go away., reasoning: It sends away., score: 1}
"""
ROWS = [
    {"id": f"q{at}", "user_input": f"What is number {at}?", "reference": f"It is {at}."}
    | {"response": f"It is {'kindly ' if at % 3 else ''}{at}."}
    | {"retrieved_contexts": [f"Number {at}."]}
    for at in range(12)
]
SCORE = "score rows.jsonl --measures Rubric(polite)"


def judged(request: ServerRequest) -> str:
    """A judge that sees kindness, and is a point too kind for everything else."""
    asked = json.dumps(request.body["messages"][-1])
    return json.dumps({"reasoning": "Seen.", "score": 3 if "kindly" in asked else 2})


server = playing(judged)


@pytest.fixture
def project(tmp_path: Path, server: ScriptedServer) -> Path:
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "polite.yaml").write_text(RUBRIC)
    (tmp_path / "ragwright.yaml").write_text(f"judge: {{model: '{server.url}#judge'}}\n")
    write_rows(tmp_path / "rows.jsonl", ROWS)
    return tmp_path


def refused(folder: Path, command: str, *more: str, code: int = 1) -> str:
    """What a command says on standard error that ends with this code."""
    return ragwright(folder, *command.split(), *more, code=code).stderr


# -- runs and files --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rubrics_own_scale_stands_wherever_its_scores_do(project: Path) -> None:
    shown = run(project, f"{SCORE} --name one")
    assert "Rubric(polite) (1-3)" in shown
    assert "1: 0, 2: 4, 3: 8" in shown, "the histogram has every point of the scale"
    scale = read_json(project, SCORE)["measures"]["Rubric(polite)"]["scale"]
    assert scale == {"low": 1, "high": 3, "higher_is_better": True}
    compared = run(project, "compare one latest")
    assert "\nRubric(polite) " in compared  # the scale may be in the next line of the cell
    assert "(1-3) " in compared
    assert "from 1 to 3" in refused(project, "gate one --rule Rubric(polite)>=4")
    run(project, "gate one --rule Rubric(polite)>=2.5")


@pytest.mark.slow
def test_runs_are_listed_named_and_counted_back(project: Path) -> None:
    first = read_json(project, "score rows.jsonl --measures Contains --name main")["run"]
    second = read_json(project, "score rows.jsonl --measures TokenF1 --name main")["run"]
    assert [run["id"] for run in read_json(project, "compare")["runs"]] == [second, first]
    assert not lacking(run(project, "compare"), "main", "rows.jsonl")
    assert first in ragwright(project, "compare", COLUMNS="40").stdout, "ids stay whole"
    for name, found in (("main", second), ("main~1", first), ("latest~1", first), (first, first)):
        rule = "Contains>=0.1" if found == first else "TokenF1>=0.1"
        assert read_json(project, f"gate {name} --rule {rule}")["run"] == found
    error = refused(project, "compare nobody")
    assert not lacking(error, first, second, "main", "rows.jsonl", "TokenF1")
    error = refused(project, "gate main~2 --rule Contains>=0.1")
    assert "of the name 'main'; stored: 2" in error


@pytest.mark.slow
def test_files_are_compared_and_held_to_rules_without_a_project(tmp_path: Path) -> None:
    write_rows(tmp_path / "old.jsonl", ROWS)
    write_rows(tmp_path / "new.jsonl", [{**row, "response": "Who knows?"} for row in ROWS])
    for name in ("old", "new"):
        run(tmp_path, f"score {name}.jsonl --measures TokenF1 -o {name}.results.jsonl")
    a, b = "old.results.jsonl", "new.results.jsonl"
    found = read_json(tmp_path, f"compare {a} {b}")
    assert found["measures"]["TokenF1"]["verdict"] == "worse"
    run(tmp_path, f"gate {a} --rule TokenF1>=0.5")
    run(tmp_path, f"gate {b} --rule TokenF1>=baseline-0.1 --baseline {a}", code=100)
    told = refused(tmp_path, "compare old.jsonl new.results.jsonl")
    assert not lacking(told, "rows, not results", "score old.jsonl -o results.jsonl")
    assert not (tmp_path / ".ragwright").exists()


def test_rows_without_ids_are_paired_by_question_and_occurrence(tmp_path: Path) -> None:
    """The second file has them in another order; of a question asked twice the order counts."""
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    answers = [("When?", "at six"), ("Where?", "in the tank"), ("When?", "at noon"), ("Why?", "no")]
    for name, order in (("a", (0, 1, 2, 3)), ("b", (3, 0, 2, 1))):
        rows = [{"user_input": q, "response": r, "reference": r} for q, r in answers]
        rows[2]["reference"] = "at six"
        write_rows(tmp_path / f"{name}.jsonl", [rows[at] for at in order])
        words = f"--measures ExactMatch -o {name}-rows.jsonl --name {name}"
        run(tmp_path, f"score {name}.jsonl {words}")
    for pair in ("a b", "a-rows.jsonl b-rows.jsonl"):
        found = read_json(tmp_path, f"compare {pair}")["measures"]["ExactMatch"]
        assert (found["n"], found["ties"], found["difference"]) == (4, 4, 0)


@pytest.mark.slow
def test_a_comparison_names_the_settings_of_the_index_and_not_its_hash(tmp_path: Path) -> None:
    parts = "".join(f"## Part {n}\n\nThe part {n} is changed yearly.\n\n" for n in range(8))
    make_project(tmp_path, {"parts.md": parts})
    gold = "The part 1 is changed yearly."
    row = {"user_input": "When is part 1 changed?", "reference": "yearly"}
    write_rows(tmp_path / "main.jsonl", [{**row, "reference_contexts": [gold, "Nowhere said."]}])
    smaller = "--set chunk.size=40 --set chunk.overlap=0"
    told = read_json(tmp_path, "eval --testset main.jsonl --name before")
    assert any("1 of 2 passages are not in it word for word" in note for note in told["notes"])
    run(tmp_path, f"ingest -q {smaller}")
    run(tmp_path, f"eval --testset main.jsonl -q --name after {smaller}")
    lines = [line.strip() for line in run(tmp_path, "compare before after").splitlines()]
    assert {"chunk.size: 400 -> 40", "chunk.overlap: 50 -> 0"} <= {*lines}
    assert not any(line.startswith(("pair", "snapshot")) for line in lines)
    told = read_json(tmp_path, "compare before after")
    assert {"key": "chunk.size", "a": 400, "b": 40} in told["settings"]
    facts = read_json(tmp_path, "report before after")["facts"]
    assert "chunk.size: 400 -> 40" in facts["settings that differ"]
    (tmp_path / "docs" / "more.md").write_text("Another document about valves.")
    run(tmp_path, "ingest -q")
    run(tmp_path, "eval --testset main.jsonl -q --name later")
    shown = run(tmp_path, "compare before later")
    assert "  documents in the index: changed" in shown.splitlines()


# -- the table of the tutorial ---------------------------------------------------------------

TABLE = "compare --table tutorial --testset testsets/main.jsonl"
TUNED = "--tuned embed.model=own:straight"
OWN = """
embed: {model: "own:mirrored"}
models:
  "own:mirrored": {backend: "scripted_embedders:Mirrored"}
  "own:straight": {backend: "scripted_embedders:Straight"}
retrieve: {search: dense}
"""


@pytest.mark.slow
def test_four_rows_with_intervals_against_base_and_stored_runs(tmp_path: Path) -> None:
    folder = make_project(tmp_path, {f"{n}.txt": f"n{n}" for n in range(40)}, OWN)
    (folder / "testsets").mkdir()
    rows = [
        {"id": f"r{n}", "user_input": f"q{n}", "reference_ids": [f"docs/{n}.txt"]}
        | {"metadata": {"split": "confirm" if n % 2 else "tune"}}
        for n in range(40)
    ]
    write_rows(folder / "testsets/main.jsonl", rows)
    made = read_json(folder, f"{TABLE} {TUNED}")
    reranked = "rerank (20 -> 2)"
    names = ["base", "tuned", f"base + {reranked}", f"tuned + {reranked}"]
    assert [row["name"] for row in made["rows"]] == names
    base, tuned = made["rows"][:2]
    assert base["measures"]["MRR@5"]["mean"] < 0.5
    assert base["measures"]["MRR@5"]["n"] == 20
    assert base["measures"]["HitRate@5"]["coverage"] == 1
    assert tuned["measures"]["MRR@5"]["mean"] == 1
    assert tuned["against_base"]["MRR@5"]["verdict"] == "better"
    assert tuned["against_base"]["MRR@5"]["low"] > 0
    assert tuned["settings"] == ["embed.model=own:straight"]
    stored = read_json(folder, f"compare {base['runs'][0]} {tuned['runs'][0]}")["measures"]
    assert stored["MRR@5"]["difference"] == tuned["against_base"]["MRR@5"]["difference"]
    printed = run(folder, f"{TABLE} {TUNED}")
    split = "questions: the confirm split of testsets/main.jsonl"
    assert not lacking(printed, "against base", split, "set judge.model")
    made = read_json(folder, TABLE)["rows"]
    assert [bool(row["skipped"]) for row in made] == [False, True, False, True]
    assert "no tuned model is named" in run(folder, TABLE)
    write_rows(folder / "testsets/main.jsonl", [{"user_input": f"q{n}"} for n in range(4)])
    assert not lacking(run(folder, f"{TABLE} {TUNED}"), "no score, n 0", "not compared")


@pytest.mark.slow
def test_questions_are_generated_once_and_a_judge_adds_columns(tmp_path: Path) -> None:
    def yes(request: ServerRequest) -> str:
        said = "\n".join(str(message["content"]) for message in request.body["messages"])
        return json.dumps({"reasoning": "Seen.", "score": int(zlib.crc32(said.encode()) % 4 > 0)})

    shutil.copytree(Path(__file__).parents[2] / "examples/persona_qa/documents", tmp_path / "docs")
    with ScriptedServer(yes) as model:
        make_project(tmp_path, {}, f"judge: {{model: '{model.url}#judge'}}\n")
        made = read_json(tmp_path, "compare --table tutorial --questions 6")
        calls = len(model.requests)
        first = (tmp_path / "testsets/tutorial.jsonl").read_text()
        read_json(tmp_path, "compare --table tutorial --questions 6")
        assert len(model.requests) == calls, "nothing is asked twice"
    assert (tmp_path / "testsets/tutorial.jsonl").read_text() == first
    columns = ["MRR@5", "HitRate@5", "Rubric(AnswersQuestion)", "Groundedness"]
    assert list(made["rows"][0]["measures"]) == columns
    assert len(made["rows"][0]["runs"]) == 2
    assert len(made["rows"][2]["against_base"]) >= 2


# -- reports ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_report_is_a_page_numbers_and_pictures(tmp_path: Path) -> None:
    said = ["Every two years.", "Once.", "Two years, says the manual."] * 4
    rows = [
        {"id": f"q{n}", "user_input": f"Question {n}?", "response": text, "reference": "two years"}
        for n, text in enumerate(said)
    ]
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    write_rows(tmp_path / "rows.jsonl", rows)
    for name in ("one", "two"):
        run(tmp_path, f"score rows.jsonl --measures TokenF1 --name {name} -q")
    told = ragwright(tmp_path, "report", "one").stderr
    assert not lacking(told, "TokenF1 (0-1) is", "written to report.html")
    assert '"measures":["TokenF1"]' in (tmp_path / "report.html").read_text("utf-8")
    told = ragwright(tmp_path, "report", "one", "two", "-o", "out/pair.html").stderr
    assert "No difference between one and two is proven." in told
    assert (tmp_path / "out" / "pair.html").exists()
    document = read_json(tmp_path, "report latest -q")
    assert document["kind"] == "run"
    run(tmp_path, "report one -o numbers.csv -q")
    [line] = csv_rows(tmp_path / "numbers.csv")
    assert float(line["mean"]) == document["entries"][0]["measures"]["TokenF1"]["mean"]
    run(tmp_path, "report one -o numbers.json -q")
    assert json.loads((tmp_path / "numbers.json").read_text())["title"] == document["title"]
    run(tmp_path, "report one two --pictures charts -q")
    assert {path.suffix for path in (tmp_path / "charts").iterdir()} == {".png"}
    told = refused(tmp_path, "report latest -o rows.xlsx")
    assert not lacking(told, "unknown ending '.xlsx'", "ragwright score latest -o rows.csv")


@pytest.mark.slow
def test_a_report_and_a_gate_name_the_rows_that_fail(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    rows = [
        {"id": f"{kind}-{n}", "user_input": f"What is the {kind} of {n}?", "kind": kind}
        | {"response": "unknown" if kind == "price" else f"answer {n}", "reference": f"answer {n}"}
        for kind in ("price", "colour", "weight", "maker")
        for n in range(8)
    ]
    write_rows(folder / "rows.jsonl", rows)
    run(folder, "score rows.jsonl --measures ExactMatch,TokenF1 -q")
    report = read_json(folder, "report latest")
    assert {row["id"] for row in report["weak"]["rows"]} == {f"price-{n}" for n in range(5)}
    assert not any(name.startswith("histogram") for name in report["charts"])  # 0 or 1
    failed = read_json(folder, "gate latest --rule ExactMatch>=0.9", code=100)
    assert {row["id"] for row in failed["failing"]["rows"]} == {f"price-{n}" for n in range(5)}
    shown = run(folder, "gate latest --rule ExactMatch>=0.9", code=100)
    assert not lacking(shown, "Worst rows", "What is the price of 0?")
    assert "Worst rows" not in run(folder, "gate latest --rule ExactMatch>=0.5")


# -- judges, people and gates ----------------------------------------------------------------

SHEET = "review latest --measures Rubric(polite) -o sheet.csv"
COLUMN = "Rubric(polite) (1-3)"


def fill(path: Path, column: str = COLUMN, rude: str = "1", kind: str = "3") -> None:
    """What a person does: kind answers get ``kind``, the others ``rude``."""
    rows = csv_rows(path)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, column: kind if "kindly" in row["response"] else rude})


@pytest.mark.slow
def test_a_gate_wants_a_judge_that_people_checked(project: Path) -> None:
    made = read_json(project, SCORE)["run"]
    rule = f"gate {made} --rule Rubric(polite)>=2"
    strict = f"{rule} --calibrated"
    shown = run(project, strict, code=101)
    assert "it was never checked against people" in shown
    warned = run(project, rule)  # without --calibrated it counts, and warns
    [line] = [line for line in warned.splitlines() if line.startswith("warning: ")]
    assert "Rubric(polite): its judge has no passport" in line
    [whole] = read_json(project, rule)["warnings"]
    assert whole.startswith(line[9:]), "the terminal breaks it at its width"
    run(project, f"{rule} -o gate.xml")
    assert line in (project / "gate.xml").read_text().replace("&gt;", ">")

    run(project, SHEET)
    fill(project / "sheet.csv")
    remark = ragwright(project, "passport", "review:sheet.csv").stderr  # the key lies beside it
    assert "stored in passports/sheet-" in remark
    (kept,) = (project / "passports").glob("*.json")
    body = json.loads(kept.read_text())
    (judge,) = (one for one in body["judges"] if one["name"].startswith("Rubric(polite) by "))
    assert judge["run"] == made
    figures = judge["dimensions"]["Rubric(polite)"]
    assert (figures["rows"], figures["spearman"]["value"]) == (12, 1)
    assert figures["bias"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    run(project, strict)
    assert "warning: Rubric(polite): its judge" not in run(project, rule)

    again = read_json(project, f"score {made} --measures Rubric(polite)")["run"]
    run(project, f"gate {again} --rule Rubric(polite)>=2 --calibrated")
    run(project, f"passport review:sheet.csv --verdicts {again}")  # it judged them again
    assert list((project / "passports").glob("*.json")) == [kept]

    fill(project / "sheet.csv", rude="3", kind="1")
    run(project, f"passport review:sheet.csv --verdicts {again}")  # the opposite
    shown = run(project, strict, code=101)
    assert "does not show that it can be trusted" in shown
    assert "not shown to be above chance (-1.000" in shown
    warned = run(project, rule)
    assert "warning: Rubric(polite): its passport on sheet does not show" in warned

    (project / "rubrics" / "polite.yaml").write_text(RUBRIC.replace("dry", "curt"))
    run(project, SCORE)
    other = run(project, "gate latest --rule Rubric(polite)>=2 --calibrated", code=101)
    assert "rubrics.polite" in other
    kept.write_text("{")
    assert "this is not a passport" in refused(project, strict)


@pytest.mark.slow
def test_labels_of_other_answers_are_refused_and_not_recorded(project: Path) -> None:
    made = read_json(project, SCORE)["run"]
    run(project, SHEET)
    fill(project / "sheet.csv")
    others = [{**row, "response": f"Number {n}."} if n < 7 else row for n, row in enumerate(ROWS)]
    write_rows(project / "others.jsonl", others)
    other = read_json(project, SCORE.replace("rows", "others"))["run"]
    labelled = [{**row, "human": 1 + at % 3} for at, row in enumerate(ROWS)]
    write_rows(project / "labels.jsonl", labelled)
    column = "passport labels.jsonl --map human=label.polite(1..3) --verdicts"
    for command in ("passport review:sheet.csv --verdicts", column):
        error = refused(project, f"{command} {other}")
        assert "people judged another answer of row 'q0' than the run scored" in error
    assert not (project / "passports").exists()
    run(project, f"{column} {made}")
    run(project, f"review {made} {other} --measures Rubric(polite) -o both.csv")
    fill(project / "both.csv")
    error = refused(project, "passport review:both.csv")
    assert "name the run whose scores are compared with people's: --verdicts RUN" in error
    for name, rows in ((made, 8), (other, 4)):  # of each system its own answers
        found = read_json(project, f"passport review:both.csv --verdicts {name}")
        people = found["people"]["Rubric(polite)"]
        assert (found["rows"], people["rows"]) == (12, 12)
        assert people["mean"]["value"] == pytest.approx((12 + 2 * rows) / 12, abs=1e-4)


@pytest.mark.slow
def test_two_people_bias_nothing(project: Path) -> None:
    """Ada says 1 and Bo 3 where the judge says 2: no bias, as their mean is 2."""
    run(project, SCORE)
    run(project, SHEET)
    for person, rude in (("ada", "1"), ("bo", "3")):
        shutil.copy(project / "sheet.csv", project / f"{person}.csv")
        fill(project / f"{person}.csv", rude=rude)
    assert "two labels of 'ada'" in refused(project, "passport review:ada.csv,ada.csv")
    found = read_json(project, "passport review:ada.csv,bo.csv")
    people = found["people"]["Rubric(polite)"]
    assert (people["rows"], people["labels"], people["raters"], people["twice"]) == (12, 24, 2, 12)
    assert people["weighted_kappa"]["value"] < 0.7
    (judge,) = (body for name, body in found["judges"].items() if name.startswith("Rubric"))
    assert judge["Rubric(polite)"]["bias"]["value"] == 0
    (project / "people").mkdir()
    for name in ("ada.csv", "bo.csv", "sheet.key.json"):
        (project / name).rename(project / "people" / name)
    folder = read_json(project, "passport review:people")
    assert folder["people"]["Rubric(polite)"] == people


def test_nobody_loses_what_he_wrote_and_everybody_sees_the_levels(project: Path) -> None:
    words = "review rows.jsonl --measures Rubric(polite),Contains,Faithfulness -o sheet.csv"
    run(project, words)
    lines = csv_rows(project / "sheet.csv")[0]["levels"].splitlines()
    assert {"1: It is rude.", "2: It is dry.", "3: It is polite."} <= set(lines)
    assert any(line.startswith("Faithfulness (1-5): ") for line in lines)
    assert sum(line.startswith("5: ") for line in lines) == 1
    fill(project / "sheet.csv")
    before = (project / "sheet.csv").read_bytes()
    assert "nothing was changed" in refused(project, words)
    (project / "sheet.csv").rename(project / "ada.csv")
    assert "sheet.key.json" in refused(project, words), "its key is still there"
    assert (project / "ada.csv").read_bytes() == before
    run(project, SCORE)
    (project / "sheet.key.json").rename(project / "other.key.json")
    shutil.copy(project / "other.key.json", project / "own.key.json")
    named = "passport review:ada.csv --verdicts latest"
    assert "there are several: other.key.json, own.key.json" in refused(project, named)
    (project / "own.key.json").unlink()
    run(project, named)
    fill(project / "ada.csv", rude="4")
    assert "not a whole number from 1 to 3" in refused(project, named)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a measure that needs no judge, its sheet and key, and rows with labels."""
    folder = tmp_path_factory.mktemp("labelled")
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    write_rows(folder / "rows.jsonl", ROWS)
    run(folder, "score rows.jsonl --measures Contains --name r")
    run(folder, "review r --measures Contains -o sheet.csv")
    return folder


def with_label(value: str) -> str:
    """Rows of which one has this label, written as in JSON, and the others 1 or 0."""
    lines = [{**row, "human": "?" if at == 3 else at % 2} for at, row in enumerate(ROWS)]
    return "\n".join(json.dumps(line).replace('"?"', value) for line in lines)


LABELS = "passport labels.jsonl --map human=label.Contains(0..1) --verdicts r"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (with_label("1e999"), "off the scale"),
        (with_label("1" + "0" * 400), "off the scale"),
        (with_label('"\\ud800"'), "not a number"),
        (with_label('"maybe"'), "'maybe', not a number"),
        (with_label("7"), "off the scale"),
        (with_label("-1"), "off the scale"),
        (with_label("1") + "\n" + with_label("1").splitlines()[0], "two labels"),
        (with_label("1").replace('"id": "q', '"id": "z'), "is in the set"),
        (with_label("1").replace("human", "humane"), "no row has a value under 'human'"),
        (with_label("1")[:-20], "not JSON"),
        ("\0" * 100, "not JSON"),
        ("", "the file holds no rows"),
    ],
)
def test_labels_that_cannot_be_used_say_where(labelled: Path, text: str, said: str) -> None:
    (labelled / "labels.jsonl").write_text(text, "utf-8", "surrogatepass")
    assert said in refused(labelled, LABELS)
    assert not (labelled / "passports").exists()


def test_a_byte_order_mark_and_labels_of_other_rows_are_no_fault(labelled: Path) -> None:
    text = "\ufeff" + with_label("1").replace('"id": "q5"', '"id": "z5"')
    (labelled / "labels.jsonl").write_text(text, "utf-8")
    found = read_json(labelled, f"{LABELS} --no-record")
    judge = next(body for name, body in found["judges"].items() if name.startswith("Contains in"))
    assert (found["rows"], judge["Contains"]["rows"]) == (12, 11)
    assert any("no verdict for 1 row of the set" in note for note in found["notes"])


def keyed(folder: Path, rude: str = "0") -> str:
    """The command that reads the sheet, filled in, beside its key alone."""
    (folder / "own").mkdir(exist_ok=True)
    shutil.copy(folder / "sheet.csv", folder / "own" / "ada.csv")
    shutil.copy(folder / "sheet.key.json", folder / "own" / "the.key.json")
    fill(folder / "own" / "ada.csv", "Contains (0-1)", rude=rude, kind="1")
    return "passport review:own/ada.csv --no-record"


def test_people_score_blind_and_a_measure_is_held_against_them(labelled: Path) -> None:
    made = read_json(labelled, "compare")["runs"][0]["id"]
    assert made not in json.dumps(csv_rows(labelled / "sheet.csv"))
    told = read_json(labelled, keyed(labelled, rude="1"), "--verdicts", made)
    assert told["rows"] == told["judges"][f"Contains in {made}"]["Contains"]["rows"] == 12
    assert told["people"]["Contains"]["mean"]["value"] == 1.0


@pytest.mark.parametrize("cell", ["9" * 5000, "1.0", "nan", "²", "=1", "\ufeff1"])
def test_a_cell_that_is_no_score_is_refused(labelled: Path, cell: str) -> None:
    assert "not a whole number from 0 to 1" in refused(labelled, keyed(labelled, rude=cell))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-30],
        lambda text: "[" * 100_000,
        lambda text: "[]",
        lambda text: text.replace('"seed": 0', '"seed": 1e999'),
        lambda text: text.replace('"measures": [', '"measures": 5, "others": ['),
    ],
)
def test_a_damaged_key_is_refused(labelled: Path, change: Callable[[str], str]) -> None:
    words = keyed(labelled)
    key = labelled / "own" / "the.key.json"
    key.write_text(change(key.read_text()))
    assert "not the key of a review" in refused(labelled, words)


# -- passports -------------------------------------------------------------------------------

PEOPLE: list[dict[str, object]] = [
    {"id": f"r{at}", "question": f"What is {at}?", "passage": f"It is right {at}."}
    | {"response": f"It is {'right' if at % 3 else 'wrong'} {at}."}
    | {"human": 4 if at % 3 else 1}
    for at in range(24)
]
MAPS = "--map human=label.faithfulness(1..4) --map passage=retrieved_contexts"


def careful(request: ServerRequest) -> str:
    """A judge that is right, but answers three rows with prose."""
    text = json.dumps(request.body["messages"])
    if any(f"What is {at}?" in text for at in (7, 8, 10)):
        return "I cannot say."
    return json.dumps({"reasoning": "Seen.", "score": 1 if "It is wrong" in text else 5})


@pytest.fixture
def right() -> Iterator[ScriptedServer]:
    with ScriptedServer(careful) as model:
        yield model


@pytest.mark.slow
def test_a_chat_judge_gets_a_passport_that_the_gate_reads(
    tmp_path: Path, right: ScriptedServer
) -> None:
    model = f"{right.url}#judge"
    prices = f"models: {{'{model}': {{price_in: 1.0, price_out: 1.0}}}}\n"
    (tmp_path / "ragwright.yaml").write_text(f"judge: {{model: '{model}'}}\n{prices}")
    write_rows(tmp_path / "rows.jsonl", PEOPLE)
    command = f"passport rows.jsonl {MAPS} --judge {model} --measures Faithfulness,KPrecision"
    dry = read_json(tmp_path, f"{command} --dry-run")
    assert dry["calls"]["expected"] >= len(PEOPLE)
    assert len(right.requests) == 0
    document = read_json(tmp_path, command)
    assert (document["set"], document["rows"]) == ("rows", 24)
    name = f"Faithfulness by {model}"
    figures = document["judges"][name]["faithfulness"]
    assert (figures["rows"], figures["spearman"]["value"]) == (21, 1)
    about = document["about"][name]
    assert about["states"] == {"judge_invalid": 3, "scored": 21}
    assert about["unusable"]["value"] == pytest.approx(0.125)
    assert about["cost_100"] > 0
    assert document["about"]["KPrecision"]["cost_100"] == 0
    assert figures["versus"].keys() == {"KPrecision"}

    made = len(right.requests)
    run(tmp_path, f"{command} --quiet")  # every reply is known: nothing is paid twice
    assert len(right.requests) - made <= 6, "the three unusable replies are asked for again"
    [path] = (tmp_path / "passports").glob("*.json")
    answers = [
        {"id": r["id"], "question": r["question"], "response": r["response"]}
        | {"retrieved_contexts": [r["passage"]]}
        for r in PEOPLE
    ]
    write_rows(tmp_path / "answers.jsonl", answers)
    run(tmp_path, "score answers.jsonl --measures Faithfulness --quiet")
    gate = "gate latest --rule Faithfulness>=2 --floor 0.5 --calibrated"
    assert f"passport on rows (faithfulness, {path.name})" in run(tmp_path, gate)
    path.write_text(path.read_text()[: len(path.read_text()) // 2])
    for words in (gate, "report latest -o page.html"):
        assert not lacking(refused(tmp_path, words), "this is not a passport", path.name)
    path.unlink()
    assert "its judge has no passport" in run(tmp_path, gate, code=101)


def test_passports_outside_a_project_as_pages_and_of_one_day(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", PEOPLE)
    words = f"passport rows.jsonl {MAPS} --measures KPrecision"
    shown = run(tmp_path, words)
    assert "rows: 24 rows of 24 tasks judged by people" in shown
    assert "KPrecision agrees with people on faithfulness above chance" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"], "nothing is stored"
    rows = "ID,question,response,reference,human\n" + "".join(
        f"a{n},Who is {n}?,{'Ada' if n % 3 else 'Bo'},Ada,{4 if n % 3 else 1}\n" for n in range(24)
    )
    (tmp_path / "rows.csv").write_text(rows, "utf-8")
    named = "passport rows.csv --map human=label.right(1..4) --measures TokenF1"
    for more in ("", " --map ID=id"):
        assert read_json(tmp_path, named + more)["rows"] == 24
    graded: list[dict[str, object]] = [
        {"id": str(n), "question": f"q{n}", "response": f"word{n % 3} word{n}"}
        | {"contexts": [f"word{n} other"], "grade": 1 + n % 3}
        for n in range(12)
    ]
    write_rows(tmp_path / "graded.jsonl", graded)
    quality = "passport graded.jsonl --map grade=label.quality(1..3)"
    assert read_json(tmp_path, quality)["people"]["quality"]["rows"] == 12
    run(tmp_path, "init")
    run(tmp_path, quality)
    (kept,) = (tmp_path / "passports").glob("graded-*.json")
    later = ragwright(tmp_path, "report", str(kept), "-o", "page.html").stderr
    run(tmp_path, f"{quality} -o now.html")
    heads = [
        (tmp_path / name).read_text().partition("<h1")[2].partition("</h1>")[0]
        for name in ("page.html", "now.html")
    ]
    assert heads[0] == heads[1]
    assert "on quality" in heads[0]
    assert "on quality" in later
    assert read_json(tmp_path, f"report {kept}")["set"] == "graded"
    assert "cannot be written as CSV" in refused(tmp_path, f"report {kept} -o x.csv")


def test_of_two_passports_of_one_day_the_newer_counts(tmp_path: Path) -> None:
    """The names of their files are hashes, which say nothing of their order."""
    run(tmp_path, "init")
    for name, rows in (("rows", PEOPLE), ("again", PEOPLE[:12])):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    for names in (("rows", "again"), ("again", "rows")):
        for name in names:
            told = read_json(tmp_path, f"passport {name}.jsonl {MAPS} --measures KPrecision")
            assert told["date"]
        assert [passport.set for _, passport in list_passports(tmp_path)] == list(names)
