"""Verdicts on questions that a program made say so, wherever they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
from small_project import MakeProject

NAMES = [f"{first}{second}" for first in ("alder", "birch", "cedar") for second in "abcdefgh"]
ORIGIN = "These 12 questions were made from the passages (8 cloze, 4 heading)."
LIMIT = "A difference here is not shown for people's questions."
ADVICE = "Put 30 to 50 of those into the confirm split."


def rows(*, generated: bool) -> str:
    """Questions whose gold is the second hit of each: top_k 2 is better than 1."""
    made = [
        {
            "id": f"q{n}",
            "user_input": f"{name} pump?",
            "reference_spans": [{"document_id": f"docs/second-{name}.md", "start": 9, "end": 40}],
            "metadata": {
                "split": "tune" if n % 2 else "confirm",
                "generated": True,
                "kind": "heading" if n % 6 < 2 else "cloze",
            },
        }
        for n, name in enumerate(NAMES)
    ]
    for row in () if generated else made:
        row["metadata"] = {"split": row["metadata"]["split"]}  # type: ignore[index]
    return "\n".join(map(json.dumps, made))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {}
    for name in NAMES:
        files[f"first-{name}.md"] = f"# {name} pump\n\nThe {name} pump.\n"
        files[f"second-{name}.md"] = (
            f"# Notes\n\nSomething about the {name} and what it does among many other things.\n"
        )
    folder = MakeProject(tmp_path_factory.mktemp("g"))("retrieve: {top_k: 1}\n", **files)
    (folder / "made.jsonl").write_text(rows(generated=True))
    (folder / "asked.jsonl").write_text(rows(generated=False))
    for name in ("made", "asked"):
        study = f"study: {{testset: {name}.jsonl, measures: HitRate@2}}\nretrieve: {{top_k: [2]}}\n"
        (folder / f"{name}.yaml").write_text(study)
    ragwright(folder, "ingest", "-q")
    return folder


def test_a_sweep_and_its_confirmation_say_that_questions_were_made(project: Path) -> None:
    swept = ragwright(project, "sweep", "made.yaml").stdout
    assert "on the 12 generated questions of the tune split that chose it" in swept
    for sentence in (ORIGIN, LIMIT, ADVICE):
        assert sentence in " ".join(swept.split())
    confirmed = ragwright(project, "confirm").stdout
    assert "T001 is better on generated questions than the current settings" in confirmed
    told = json.loads(ragwright(project, "confirm", "--json").stdout)
    assert "better on generated questions" in told["text"]
    assert any(ORIGIN in note for note in told["notes"]), "stored with the verdict"
    ragwright(project, "report", "-o", "made.html")
    page = (project / "made.html").read_text("utf-8")
    assert "is better on generated questions than the current settings" in page
    assert ORIGIN in page


def test_comparing_and_gating_say_it_too(project: Path) -> None:
    common = ("eval", "--measures", "HitRate@2", "-q", "--testset", "made.jsonl")
    ragwright(project, *common, "--name", "one")
    ragwright(project, *common, "--name", "two", "--set", "retrieve.top_k=2")
    shown = ragwright(project, "compare", "one", "two").stdout
    assert "HitRate@2: better on generated questions, +1.0000" in shown
    assert ORIGIN in " ".join(shown.split())
    told = json.loads(ragwright(project, "compare", "one", "two", "--json").stdout)
    assert told["measures"]["HitRate@2"]["verdict"] == "better"
    assert told["measures"]["HitRate@2"]["questions"] == "generated questions"
    assert any(LIMIT in note for note in told["notes"])
    gate = ("gate", "two", "--rule", "HitRate@2>=baseline", "--baseline", "one")
    assert ORIGIN in " ".join(ragwright(project, *gate).stdout.split())
    comment = ragwright(project, *gate, "--markdown").stdout
    assert "These 12 questions were made from the passages" in comment
    full = ragwright(project, "compare", "two", "one").stdout
    assert "The current settings have HitRate@2 1.0000 already" in " ".join(full.split())


def test_questions_of_people_have_no_such_limit(project: Path) -> None:
    swept = ragwright(project, "sweep", "asked.yaml").stdout
    confirmed = ragwright(project, "confirm").stdout
    assert "T001 is better than the current settings" in confirmed
    for text in (swept, confirmed):
        assert "generated" not in text
        assert "made from the passages" not in text


def test_some_of_both_are_counted(project: Path) -> None:
    lines = [*rows(generated=True).split("\n")[1::2], *rows(generated=False).split("\n")[1::2]]
    mixed = [json.loads(line) for line in lines]
    for n, row in enumerate(mixed):
        row |= {"id": f"m{n}", "user_input": row["user_input"] + "?" * (n // 12)}
    (project / "mixed.jsonl").write_text("\n".join(map(json.dumps, mixed)))
    common = ("eval", "--measures", "HitRate@2", "-q", "--testset", "mixed.jsonl")
    ragwright(project, *common, "--name", "m1")
    ragwright(project, *common, "--name", "m2", "--set", "retrieve.top_k=2")
    shown = " ".join(ragwright(project, "compare", "m1", "m2").stdout.split())
    assert "better on partly generated questions" in shown
    assert "12 of these 24 questions were made from the passages (8 cloze, 4 heading)." in shown


def test_a_report_of_a_sweep_tells_one_lead(project: Path) -> None:
    study = (project / "asked.yaml").read_text("utf-8").replace("[2]", "[1, 2]")
    (project / "lead.yaml").write_text(study)
    ragwright(project, "sweep", "lead.yaml", "-q")
    ragwright(project, "report", "-o", "lead.json")
    told = json.loads((project / "lead.json").read_text("utf-8"))
    sentences = json.dumps(told["verdict"])
    assert sentences.count("leads") == 1
    assert "by 1.0000" in sentences
    assert "best of 1:" in sentences, "top_k 1 is the current setting"


def test_a_ceiling_is_named(project: Path) -> None:
    study = "study: {testset: made.jsonl, measures: HitRate@2}\nretrieve: {top_k: [1]}\n"
    (project / "ceiling.yaml").write_text(study)
    told = ragwright(project, "sweep", "ceiling.yaml", "--set", "retrieve.top_k=2").stdout
    assert "The current settings have HitRate@2 1.0000 already, and 1 is the best" in told
    assert "hardly show what is better" in " ".join(told.split())
