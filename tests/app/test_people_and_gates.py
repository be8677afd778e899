"""Judges, people, gates and runs by name, from the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright import Workbench
from ragwright.core import TestsetError
from ragwright.experiment import PassportOptions, free_passport, passport_json
from ragwright.testing import Reply, ScriptedServer

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
    {
        "id": f"q{at}",
        "user_input": f"What is number {at}?",
        "response": f"It is {'kindly ' if at % 3 else ''}{at}.",
        "reference": f"It is {at}.",
        "retrieved_contexts": [f"Number {at}."],
    }
    for at in range(12)
]


def ran(folder: Path, *words: str, code: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command in a folder."""
    done = ragwright(folder, *words, code=code)
    return done.stdout, done.stderr


def told(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(ran(folder, *words, "--json", code=code)[0])


def judged(body: dict[str, Any]) -> str:
    """A judge that sees kindness, and is a point too kind for everything else."""
    asked = json.dumps(body["messages"][-1])
    return json.dumps({"reasoning": "Seen.", "score": 3 if "kindly" in asked else 2})


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda request: judged(request.body)) as scripted:
        yield scripted


def project_in(folder: Path, server: ScriptedServer) -> Path:
    (folder / "rubrics").mkdir()
    (folder / "rubrics" / "polite.yaml").write_text(RUBRIC)
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs]\njudge: {{model: '{server.url}#judge'}}\n"
    )
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder


@pytest.fixture
def project(tmp_path: Path, server: ScriptedServer) -> Path:
    return project_in(tmp_path, server)


def filled_sheet(path: Path, column: str, rude: str = "1", kind: str = "3") -> None:
    """What a person does: kind answers get ``kind``, the others ``rude``."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, column: kind if "kindly" in row["response"] else rude})


@pytest.mark.slow
def test_a_rubrics_own_scale_stands_wherever_its_scores_do(project: Path) -> None:
    shown, _ = ran(project, "score", "rows.jsonl", "--measures", "Rubric(polite)", "--name", "one")
    assert "Rubric(polite) (1-3)" in shown
    assert "1: 0, 2: 4, 3: 8" in shown  # the histogram has every point of the scale
    found = told(project, "score", "rows.jsonl", "--measures", "Rubric(polite)")
    scale = found["measures"]["Rubric(polite)"]["scale"]
    assert scale == {"low": 1, "high": 3, "higher_is_better": True}
    compared, _ = ran(project, "compare", "one", "latest")
    assert "\nRubric(polite) " in compared  # the scale may be in the next line of the cell
    assert "(1-3) " in compared
    _, error = ran(project, "gate", "one", "--rule", "Rubric(polite)>=4", code=1)
    assert "from 1 to 3" in error
    ran(project, "gate", "one", "--rule", "Rubric(polite)>=2.5")
    ran(project, "score", "rows.jsonl", "--measures", "Rubric(polite)", "-o", "out.jsonl")
    read_back, _ = ran(project, "compare", "one", "out.jsonl")
    assert "Rubric(polite) (1-3)" in read_back


@pytest.mark.slow
def test_a_gate_wants_a_judge_that_people_checked(project: Path) -> None:
    measures = ("--measures", "Rubric(polite)")
    run = told(project, "score", "rows.jsonl", *measures)["run"]
    gate = ("gate", run, "--rule", "Rubric(polite)>=2", "--calibrated")
    shown, _ = ran(project, *gate, code=101)
    assert "it was never checked against people" in shown
    warned, _ = ran(project, *gate[:-1])  # without --calibrated it counts, and warns
    [line] = [line for line in warned.splitlines() if line.startswith("warning: ")]
    assert "Rubric(polite): its judge has no passport" in line
    [whole] = told(project, *gate[:-1])["warnings"]
    assert whole.startswith(line[9:])  # the terminal breaks it at its width
    ran(project, *gate[:-1], "-o", "gate.xml")
    assert line in (project / "gate.xml").read_text().replace("&gt;", ">")
    assert f"ragwright review {run} --measures 'Rubric(polite)'" in shown
    assert f"ragwright passport review:sheet.csv --verdicts {run}" in shown

    ran(project, "review", run, *measures, "-o", "sheet.csv")
    filled_sheet(project / "sheet.csv", "Rubric(polite) (1-3)")
    _, remark = ran(project, "passport", "review:sheet.csv")  # the key lies beside it
    assert "stored in passports/sheet-" in remark
    (kept,) = (project / "passports").glob("*.json")
    body = json.loads(kept.read_text())
    (name,) = (name for name in body["judges"] if name.startswith("Rubric(polite) by "))
    identity = body["about"][name]["identity"]
    assert identity["measure"] == "Rubric(polite)"
    assert identity["judge"]["model"].endswith("#judge")
    assert len(identity["rubrics"]["polite"]) == 32
    assert body["about"][name]["run"] == run
    figures = body["judges"][name]["Rubric(polite)"]
    assert figures["rows"] == 12
    assert figures["bias"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    assert figures["spearman"]["value"] == 1
    ran(project, *gate)
    assert "warning: Rubric(polite): its judge" not in ran(project, *gate[:-1])[0]
    ran(project, *gate, "--min-kappa", "0.5")
    short, _ = ran(project, *gate, "--min-kappa", "0.99", code=101)
    assert "0.99 is required" in short
    # The judge gives 2.67, people 2.33: only the raw mean clears 2.5.
    ran(project, "gate", run, "--rule", "Rubric(polite)>=2.5")
    corrected, _ = ran(
        project, "gate", run, "--rule", "Rubric(polite)>=2.5", "--corrected", code=100
    )
    assert "mean minus the judge's bias (+0.3333 on 12 rows) 2.333" in corrected

    again = told(project, "score", run, *measures)["run"]
    ran(project, "gate", again, "--rule", "Rubric(polite)>=2", "--calibrated")
    ran(project, "passport", "review:sheet.csv", "--verdicts", again)  # it judged them again
    assert list((project / "passports").glob("*.json")) == [kept]

    filled_sheet(project / "sheet.csv", "Rubric(polite) (1-3)", rude="3", kind="1")
    ran(project, "passport", "review:sheet.csv", "--verdicts", again)  # the opposite
    shown, _ = ran(project, *gate, code=101)
    assert "does not show that it can be trusted" in shown
    assert "not shown to be above chance (-1.000" in shown
    warned, _ = ran(project, *gate[:-1])
    assert "warning: Rubric(polite): its passport on sheet does not show" in warned

    (project / "rubrics" / "polite.yaml").write_text(RUBRIC.replace("dry", "curt"))
    ran(project, "score", "rows.jsonl", *measures)
    other, _ = ran(
        project, "gate", "latest", "--rule", "Rubric(polite)>=2", "--calibrated", code=101
    )
    assert "rubrics.polite" in other
    kept.write_text("{")
    _, error = ran(project, *gate, code=1)
    assert "this is not a passport" in error


@pytest.mark.slow
def test_labels_of_other_answers_are_refused_and_not_recorded(project: Path) -> None:
    measures = ("--measures", "Rubric(polite)")
    run = told(project, "score", "rows.jsonl", *measures)["run"]
    ran(project, "review", run, *measures, "-o", "sheet.csv")
    filled_sheet(project / "sheet.csv", "Rubric(polite) (1-3)")
    others = [
        {**row, "response": f"Number {at}."} if at < 7 else row for at, row in enumerate(ROWS)
    ]
    (project / "others.jsonl").write_text("\n".join(map(json.dumps, others)))
    other = told(project, "score", "others.jsonl", *measures)["run"]
    sheet = ("passport", "review:sheet.csv", "--verdicts")
    _, error = ran(project, *sheet, other, code=1)
    assert "people judged another answer of row 'q0' than the run scored" in error
    labelled = [{**row, "human": 1 + at % 3} for at, row in enumerate(ROWS)]
    (project / "labels.jsonl").write_text("\n".join(map(json.dumps, labelled)))
    column = ("passport", "labels.jsonl", "--map", "human=label.polite(1..3)", "--verdicts")
    _, error = ran(project, *column, other, code=1)
    assert "people judged another answer of row 'q0'" in error
    assert not (project / "passports").exists()
    ran(project, *column, run)
    assert (
        "mean minus the judge's bias"
        in ran(project, "gate", run, "--rule", "Rubric(polite)>=1.5", "--corrected")[0]
    )

    ran(project, "review", run, other, *measures, "-o", "both.csv")
    filled_sheet(project / "both.csv", "Rubric(polite) (1-3)")
    _, error = ran(project, "passport", "review:both.csv", code=1)
    assert "name the run whose scores are compared with people's: --verdicts RUN" in error
    for name, rows in ((run, 8), (other, 4)):  # of each system its own answers
        found = told(project, "passport", "review:both.csv", "--verdicts", name)
        assert (found["rows"], found["people"]["Rubric(polite)"]["rows"]) == (12, 12)
        mean = found["people"]["Rubric(polite)"]["mean"]["value"]
        assert mean == pytest.approx((12 + 2 * rows) / 12, abs=1e-4)


@pytest.mark.slow
def test_two_people_bias_nothing(project: Path) -> None:
    """Ada says 1 and Bo 3 where the judge says 2: no bias, as their mean is 2."""
    measures = ("--measures", "Rubric(polite)")
    run = told(project, "score", "rows.jsonl", *measures)["run"]
    ran(project, "review", run, *measures, "-o", "sheet.csv")
    for person, rude in (("ada", "1"), ("bo", "3")):
        copy = project / f"{person}.csv"
        copy.write_bytes((project / "sheet.csv").read_bytes())
        filled_sheet(copy, "Rubric(polite) (1-3)", rude=rude)
    found = told(project, "passport", "review:ada.csv,bo.csv")
    people = found["people"]["Rubric(polite)"]
    assert (people["rows"], people["labels"], people["raters"], people["twice"]) == (12, 24, 2, 12)
    assert people["weighted_kappa"]["value"] < 0.7
    (judge,) = (body for name, body in found["judges"].items() if name.startswith("Rubric"))
    assert judge["Rubric(polite)"]["bias"]["value"] == 0
    corrected = ("gate", run, "--rule", "Rubric(polite)>=2.6", "--corrected")
    assert "bias (+0.0000 on 12 rows) 2.6667" in ran(project, *corrected)[0]
    (project / "people").mkdir()
    for name in ("ada.csv", "bo.csv", "sheet.key.json"):
        (project / name).rename(project / "people" / name)
    folder = told(project, "passport", "review:people")
    assert folder["people"]["Rubric(polite)"] == people


def test_the_same_sheet_twice_is_not_two_people(project: Path) -> None:
    measures = ("--measures", "Rubric(polite)")
    run = told(project, "score", "rows.jsonl", *measures)["run"]
    ran(project, "review", run, *measures, "-o", "sheet.csv")
    filled_sheet(project / "sheet.csv", "Rubric(polite) (1-3)")
    _, error = ran(project, "passport", "review:sheet.csv,sheet.csv", code=1)
    assert "two labels of 'sheet'" in error


def test_nobody_loses_what_he_wrote_and_everybody_sees_the_levels(project: Path) -> None:
    words = ("review", "rows.jsonl", "--measures", "Rubric(polite),Contains,Faithfulness")
    ran(project, *words, "-o", "sheet.csv")
    with (project / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        first = next(iter(csv.DictReader(file)))
    lines = first["levels"].splitlines()
    assert {"1: It is rude.", "2: It is dry.", "3: It is polite."} <= set(lines)
    assert any(line.startswith("Faithfulness (1-5): ") for line in lines)
    assert sum(line.startswith("5: ") for line in lines) == 1
    filled_sheet(project / "sheet.csv", "Rubric(polite) (1-3)")
    before = (project / "sheet.csv").read_bytes()
    _, error = ran(project, *words, "-o", "sheet.csv", code=1)
    assert "nothing was changed" in error
    (project / "sheet.csv").rename(project / "ada.csv")
    _, error = ran(project, *words, "-o", "sheet.csv", code=1)  # its key is still there
    assert "sheet.key.json" in error
    assert (project / "ada.csv").read_bytes() == before
    ran(project, "score", "rows.jsonl", "--measures", "Rubric(polite)")
    (project / "sheet.key.json").rename(project / "other.key.json")
    (project / "own.key.json").write_bytes((project / "other.key.json").read_bytes())
    named = ("passport", "review:ada.csv", "--verdicts", "latest")
    _, error = ran(project, *named, code=1)
    assert "there are several: other.key.json, own.key.json" in error
    (project / "own.key.json").unlink()
    ran(project, *named)
    filled_sheet(project / "ada.csv", "Rubric(polite) (1-3)", rude="4")
    _, error = ran(project, *named, code=1)
    assert "not a whole number from 1 to 3" in error


@pytest.mark.slow
def test_runs_are_listed_named_and_counted_back(project: Path) -> None:
    first = told(project, "score", "rows.jsonl", "--measures", "Contains", "--name", "main")["run"]
    second = told(project, "score", "rows.jsonl", "--measures", "TokenF1", "--name", "main")["run"]
    ids = [run["id"] for run in told(project, "compare")["runs"]]
    assert ids == [second, first]
    shown, _ = ran(project, "compare")
    assert "main" in shown
    assert "rows.jsonl" in shown
    for name, run in (("main", second), ("main~1", first), ("latest~1", first), (first, first)):
        rule = "Contains>=0.1" if run == first else "TokenF1>=0.1"
        assert told(project, "gate", name, "--rule", rule)["run"] == run
    _, error = ran(project, "compare", "nobody", code=1)
    for said in (first, second, "main", "rows.jsonl", "TokenF1"):
        assert said in error
    _, error = ran(project, "gate", "main~2", "--rule", "Contains>=0.1", code=1)
    assert "only 2 runs have the name 'main'" in error
    _, error = ran(project, "score", "rows.jsonl", "--name", "latest", code=1)
    assert "cannot be the name of a run" in error


@pytest.mark.slow
def test_a_comparison_says_what_moved_and_which_settings_differ(project: Path) -> None:
    ran(project, "score", "rows.jsonl", "--measures", "Rubric(polite)", "--name", "before")
    silent = [{**row, "abstained": row["id"] in ("q1", "q5")} for row in ROWS]
    (project / "silent.jsonl").write_text("\n".join(map(json.dumps, silent)))
    ran(
        project,
        *("score", "silent.jsonl", "--measures", "Rubric(polite)"),
        *("--set", "judge.temperature=0.5"),
    )
    shown, _ = ran(project, "compare", "before", "latest")
    assert "scored -> abstained in 2 rows: q1, q5" in shown
    assert "  judge.temperature: 0.0 -> 0.5" in shown.splitlines()
    found = told(project, "compare", "before", "latest")
    assert found["measures"]["Rubric(polite)"]["moved"] == {"scored -> abstained": ["q1", "q5"]}
    assert {"key": "judge.temperature", "a": 0.0, "b": 0.5} in found["settings"]
    assert "the same" in ran(project, "compare", "latest", "latest")[0]


@pytest.mark.slow
def test_files_are_compared_and_held_to_rules_without_a_project(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    worse = [{**row, "response": "Who knows?"} for row in ROWS]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, worse)))
    for name in ("old", "new"):
        for kind in ("results.jsonl", "csv"):
            ran(
                tmp_path,
                *("score", f"{name}.jsonl", "--measures", "TokenF1", "-o", f"{name}.{kind}"),
            )
    for a, b in (("old.results.jsonl", "new.results.jsonl"), ("old.csv", "new.results.jsonl")):
        found = told(tmp_path, "compare", a, b)
        assert found["measures"]["TokenF1"]["verdict"] == "worse"
        ran(tmp_path, "gate", a, "--rule", "TokenF1>=0.5")
        ran(tmp_path, "gate", b, "--rule", "TokenF1>=baseline-0.1", "--baseline", a, code=100)
    wide = [{"id": row["id"], "TokenF1": 0.5, "note": "x"} for row in ROWS]
    (tmp_path / "wide.jsonl").write_text("\n".join(map(json.dumps, wide)))
    assert told(tmp_path, "compare", "wide.jsonl", "old.csv")["measures"]["TokenF1"]["n"] == 12
    (tmp_path / "ratio.jsonl").write_text(json.dumps({"id": "q1", "Faithfulness": 0.8}))
    _, error = ran(tmp_path, "compare", "ratio.jsonl", "wide.jsonl", code=1)
    assert "outside the scale of Faithfulness (1-5)" in error
    _, error = ran(tmp_path, "compare", "old.jsonl", "new.jsonl", code=1)
    assert "holds no scores" in error
    _, error = ran(tmp_path, "compare", "missing.jsonl", "new.jsonl", code=1)
    assert "no ragwright.yaml in this folder" in error
    assert not (tmp_path / ".ragwright").exists()


def test_rows_without_gold_do_not_close_a_gate_and_silence_does(tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS * 10]
    for at, row in enumerate(rows):
        row |= {"id": f"r{at}", "reference": row["reference"] if at >= 10 else ""}
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = told(tmp_path, "score", "rows.jsonl", "--measures", "TokenF1")["measures"]["TokenF1"]
    assert (found["n"], found["no_gold"], found["coverage"]) == (110, 10, 1.0)
    ran(tmp_path, "score", "rows.jsonl", "--measures", "TokenF1", "-o", "out.jsonl")
    shown, _ = ran(tmp_path, "gate", "out.jsonl", "--rule", "TokenF1>=0.5")
    assert "on 110 rows" in shown
    assert "10 without gold left out" in shown
    # The same rows, with ten answers held back: they keep their gold, and count as missing.
    quiet = [row | {"abstained": 10 <= at < 20} for at, row in enumerate(rows)]
    (tmp_path / "quiet.jsonl").write_text("\n".join(map(json.dumps, quiet)))
    ran(tmp_path, "score", "quiet.jsonl", "--measures", "TokenF1", "-o", "quiet.out.jsonl")
    held, _ = ran(tmp_path, "gate", "quiet.out.jsonl", "--rule", "TokenF1>=0.5", code=101)
    assert "(abstained 10)" in held


@pytest.mark.slow
def test_pairwise_shows_the_judges_spread_and_its_flips_apart(tmp_path: Path) -> None:
    def wavers(body: dict[str, Any]) -> str:
        """Prefers what stands first, and says 5 or 4 by turns for one and the same text."""
        text = json.dumps(body["messages"][-1])
        first = text.find("It is") < text.find("kindly") or "kindly" not in text
        seen[text] = seen.get(text, 0) + 1
        return json.dumps({"reasoning": "So.", "score": (5 if first else 3) - seen[text] % 2})

    seen: dict[str, int] = {}
    with ScriptedServer(lambda request: wavers(request.body)) as scripted:
        folder = project_in(tmp_path, scripted)
        shown, _ = ran(
            folder, "score", "rows.jsonl", "--measures", "Pairwise", "--repeat", "2", "-j", "1"
        )
        calls = len(scripted.requests)
    assert calls == 12 * 2 * 2  # rows, orders, repeats
    assert "Pairwise (1-5)" in shown
    assert "two judgments of one row differ by" in shown
    assert "judgments the score depends on the order" in shown


def test_a_retry_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    calls, broken = [], [True]

    def judge(request: Any) -> Any:
        calls.append(request)
        if broken[0] and len(calls) % 3 == 0:
            return Reply(status=400, error="bad")
        return json.dumps({"reasoning": "Seen.", "score": 4})

    (tmp_path / "docs").mkdir()
    for at in range(6):
        text = f"# Pump {at}\n\nThe pump {at} restarts after {at + 3} minutes."
        (tmp_path / "docs" / f"d{at}.md").write_text(text)
    rows = [{"id": f"q{at}", "user_input": f"When does pump {at} restart?"} for at in range(6)]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with ScriptedServer(judge) as server:
        (tmp_path / "ragwright.yaml").write_text(
            f"sources: [docs]\njudge: {{model: '{server.url}#judge'}}\n"
        )
        ran(tmp_path, "ingest", "-q")
        words = ("eval", "--testset", "set.jsonl", "--measures", "AnswerRelevance")
        first = told(tmp_path, *words)
        assert first["measures"]["AnswerRelevance"]["states"] == {"scored": 4, "errored": 2}
        broken[0], before = False, len(calls)
        again = told(tmp_path, *words, "--retry-errors")
    assert again["run"] == first["run"]
    assert again["measures"]["AnswerRelevance"]["states"] == {"scored": 6}
    assert len(calls) - before == 2


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a measure that needs no judge, its sheet and key, and rows with labels."""
    folder = tmp_path_factory.mktemp("labelled")
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    ragwright(folder, "score", "rows.jsonl", "--measures", "Contains", "--name", "r")
    ragwright(folder, "review", "r", "--measures", "Contains", "-o", "sheet.csv")
    return folder


def with_label(value: str) -> str:
    """Rows of which one has this label, written as in JSON, and the others 1 or 0."""
    lines = [{**row, "human": "?" if at == 3 else at % 2} for at, row in enumerate(ROWS)]
    return "\n".join(json.dumps(line).replace('"?"', value) for line in lines)


COLUMN = ("labels.jsonl", "--map", "human=label.Contains(0..1)", "--verdicts", "r")


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
    assert said in ragwright(labelled, "passport", *COLUMN, code=1).stderr
    assert not (labelled / "passports").exists()


def test_a_byte_order_mark_and_labels_of_other_rows_are_no_fault(labelled: Path) -> None:
    text = "\ufeff" + with_label("1").replace('"id": "q5"', '"id": "z5"')
    (labelled / "labels.jsonl").write_text(text, "utf-8")
    words = ("passport", *COLUMN, "--no-record", "--json")
    found = json.loads(ragwright(labelled, *words).stdout)
    judge = next(body for name, body in found["judges"].items() if name.startswith("Contains in"))
    assert (found["rows"], judge["Contains"]["rows"]) == (12, 11)
    assert any("no verdict for 1 row of the set" in note for note in found["notes"])


def keyed(folder: Path, rude: str = "0", kind: str = "1") -> tuple[str, ...]:
    """The command that reads the sheet, filled in, beside its key alone."""
    (folder / "own").mkdir(exist_ok=True)
    (folder / "own" / "ada.csv").write_bytes((folder / "sheet.csv").read_bytes())
    (folder / "own" / "the.key.json").write_bytes((folder / "sheet.key.json").read_bytes())
    filled_sheet(folder / "own" / "ada.csv", "Contains (0-1)", rude=rude, kind=kind)
    return ("passport", "review:own/ada.csv", "--no-record")


@pytest.mark.parametrize("cell", ["9" * 5000, "1.0", "nan", "²", "=1", "\ufeff1"])
def test_a_cell_that_is_no_score_is_refused(labelled: Path, cell: str) -> None:
    words = keyed(labelled, rude=cell)
    assert "not a whole number from 0 to 1" in ragwright(labelled, *words, code=1).stderr


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
    assert "not the key of a review" in ragwright(labelled, *words, code=1).stderr


def test_people_and_judge_meet_in_python(project: Path) -> None:
    with Workbench.open(project) as wb:
        wb.score(str(project / "rows.jsonl"), "Rubric(polite)")
        sheet, key = wb.review_answers(["latest"], "Rubric(polite)", project / "sheet.csv")
        assert len(sheet.items) == 12
        assert key == project / "sheet.key.json"
        with pytest.raises(TestsetError, match="exists already"):
            wb.review_answers(["latest"], "Rubric(polite)", project / "sheet.csv")
        filled_sheet(project / "sheet.csv", "Rubric(polite) (1-3)")
        found = free_passport(
            f"review:{project}/sheet.csv", PassportOptions(verdicts=("latest",)), root=project
        )
    (name,) = (name for name in passport_json(found)["judges"] if name.startswith("Rubric"))
    figures = next(judge for judge in found.judges if judge.name == name).dimensions
    assert figures["Rubric(polite)"].rows == 12
    assert figures["Rubric(polite)"].bias.value == pytest.approx(1 / 3)


def test_a_testset_is_reviewed_in_python(project: Path) -> None:
    (project / "testsets").mkdir()
    rows = [{"id": one["id"], "user_input": one["user_input"]} for one in ROWS]
    (project / "testsets/made.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Workbench.open(project) as wb:
        review = wb.review("testsets/made.jsonl", by="ada")
        first, second, *_ = review.open
        review.decide(first, "accepted")
        review.decide(second, "rejected")
        assert len(wb.review("testsets/made.jsonl").open) == 10
        assert review.counts()["accepted"] == 1
