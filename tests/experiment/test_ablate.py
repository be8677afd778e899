"""Ablations against a generator whose quality hangs on its prompt in a known way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragwright import Workbench
from ragwright.core import ConfigError, PromptError, StudyError
from ragwright.experiment import (
    Ablation,
    AblationOptions,
    AblationResult,
    PartResult,
    plan_ablation,
)
from ragwright.project import Session
from ragwright.report import ablation_json, ablation_table, report_subject
from ragwright.testing import ScriptedServer, ServerRequest

STATIONS = 78
TUNE = 40
BOTH = ("engineer", "marketing")
TEMPLATE = """
order: [role, grounding, plain, first, second, idle, context, question, turn_markers]
parts:
  role: "ROLE You answer questions."
  grounding: "GROUNDING Take every statement from the passages below and from nowhere else."
  plain: "{% if persona.name == 'marketing' %}PLAIN Write for people in a hurry.{% endif %}"
  first: "FIRST Give the code."
  second: "SECOND Name the code in your answer."
  idle: "IDLE Be kind to animals."
  question: "{{ question }} Asked by {{ persona.audience }}."
system: [role, grounding, plain, first, second, idle]
"""
BUILDERS = "audience: people who build\nanswer_length: long\nwriting_style: dry\n"


def reads(request: ServerRequest) -> str:
    """Right where the parts that matter are there.

    ``grounding`` matters to two rows of three, ``plain`` to all rows of one persona, and of
    ``first`` and ``second`` one must be there. The others change nothing.
    """
    system = str(request.body["messages"][0]["content"])
    number = int(re.findall(r"station S(\d+)\?", request.prompt)[-1])
    right = "FIRST" in system or "SECOND" in system
    if number % 3:
        right = right and "GROUNDING" in system
    if "who sell" in request.prompt:
        right = right and "PLAIN" in system
    return f"It is K{number}7Q [1]." if right else "I would guess that it is 1234 [1]."


def settings(
    folder: Path, url: str, more: str = "", prompt: str = "template: prompts/own.yaml"
) -> None:
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs]\nanswer: {{model: '{url}#reader', max_tokens: 30}}\n"
        f"retrieve: {{top_k: 1}}\nprompt: {{{prompt}}}\n{more}"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stations")
    lines = [
        {
            "id": f"s{n:02d}",
            "user_input": f"Which is the access code of station S{n}?",
            "reference": f"K{n}7Q",
            "split": "tune" if n < TUNE else "confirm",
        }
        for n in range(STATIONS)
    ]
    texts = {
        f"docs/station-{n:02d}.txt": f"The access code of station S{n} is K{n}7Q."
        for n in range(STATIONS)
    }
    texts |= {"prompts/own.yaml": TEMPLATE, "set.jsonl": "\n".join(map(json.dumps, lines))}
    texts |= {"personas/marketing.yaml": "audience: people who sell\n"}
    texts |= {"personas/engineer.yaml": BUILDERS}
    for name, text in texts.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    settings(made, "http://127.0.0.1:9/v1")
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


@pytest.fixture
def model(folder: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(reads) as server:
        settings(folder, server.url)
        (folder / "testsets" / "openings.jsonl").unlink(missing_ok=True)
        yield server


def ablated(folder: Path, how: AblationOptions, session: Session | None = None) -> AblationResult:
    with Workbench.open(folder, session) as bench:
        return bench.ablate(str(folder / "set.jsonl"), "Contains", how)


def part(found: Ablation, name: str, design: str = "leave one out") -> PartResult:
    return next(one for one in found.parts if (one.part, one.design) == (name, design))


def effect(one: PartResult, persona: str = "") -> tuple[str, float]:
    told = next(effect for effect in one.effects if effect.persona == persona)
    assert told.difference is not None
    return told.verdict, round(told.difference, 9)


@pytest.mark.slow
def test_planted_effects_are_found_and_nothing_else(folder: Path, model: ScriptedServer) -> None:
    how = AblationOptions(leave_one_out=True, personas=BOTH, margin=0.1, name="parts")
    with Workbench.open(folder) as bench:
        forecast = bench.forecast_ablate(str(folder / "set.jsonl"), "Contains", how)
        count = bench.project.tokenizer.count
        assert model.requests == []
    result = ablated(folder, how)
    assert forecast.trials == 1 + 7
    made = 80 * 7 + 40  # `plain` is empty for the engineer: leaving it out asks nothing new
    assert len(model.requests) == made
    assert forecast.forecast.calls.expected == pytest.approx(made, rel=0.05)  # of 20 rows of 80
    assert ablated(folder, how).ablation == result.ablation
    assert len(model.requests) == made

    found = result.ablation
    names = ["role", "grounding", "plain", "first", "second", "idle", "turn_markers"]
    assert (found.rows, [one.part for one in found.parts]) == (2 * TUNE, names)
    hard = round(sum(n % 3 > 0 for n in range(TUNE)) / TUNE, 9)
    assert effect(part(found, "grounding")) == ("helps", hard)
    assert effect(part(found, "plain")) == ("helps", 0.5)
    assert effect(part(found, "plain"), "marketing") == ("helps", 1.0)
    assert effect(part(found, "plain"), "engineer") == ("no effect proven", 0.0)
    for name in ("first", "second"):
        assert effect(part(found, name)) == ("no effect proven", 0.0)
    assert {one.part for one in found.safe} == {*names} - {"grounding", "plain"}
    assert not part(found, "plain").safe  # though it does nothing for one persona
    [told] = [one for one in part(found, "idle").effects if not one.persona]
    assert (told.n, told.clusters, told.independent) == (80, 40, 40)  # a question is asked twice
    text = ablation_table(found)
    assert text.startswith(f"Proven on 80 rows: grounding helps (Contains {hard:+.4f}")

    plain = count("PLAIN Write for people in a hurry.")
    assert part(found, "plain").tokens == plain / 2  # one persona of two has it
    for name, said in (("idle", "IDLE Be kind to animals."), ("first", "FIRST Give the code.")):
        assert part(found, name).tokens == count(said)
    with Workbench.open(folder) as bench:
        subject = report_subject(bench.project.folder, bench.project.runs, ["parts"])
    assert subject.ablation == found
    assert {entry.id for entry in subject.entries} >= {"T000", "T001", "T002"}
    json.dumps(ablation_json(found, run=result.run))
    # Of two parts that say the same, either does it all where the other is missing.
    without = Session(("prompt.without=[first]",))
    alone = ablated(folder, AblationOptions(parts=("second",), personas=BOTH), without).ablation
    assert effect(part(alone, "second")) == ("helps", 1.0)


@pytest.mark.slow
def test_confirming_refutes_deleting_twins_together(folder: Path, model: ScriptedServer) -> None:
    parts = ("first", "second", "idle")
    how = AblationOptions(parts=parts, personas=BOTH, margin=0.1, confirm=True)
    result = ablated(folder, how)
    found = result.ablation
    assert {one.part for one in found.parts if one.holds} == {"first", "second", "idle"}
    assert found.together is not None
    assert (found.together.part, found.together.holds) == ("first + second + idle", False)
    assert (found.openings, found.confirm_rows) == (1, 2 * (STATIONS - TUNE))
    assert "some parts may be redundant" in " ".join(found.verdict)
    asked = len(model.requests)
    again = ablated(folder, how)
    assert again.again
    assert (again.ablation, again.run) == (found, result.run)
    assert len((folder / "testsets" / "openings.jsonl").read_text().splitlines()) == 1
    assert len(model.requests) == asked
    assert "not shown" in ablation_table(found)


def test_what_few_rows_leave_open_is_not_called_safe(folder: Path, model: ScriptedServer) -> None:
    found = ablated(folder, AblationOptions(parts=("idle",), limit=20, confirm=True)).ablation
    assert effect(part(found, "idle")) == ("no effect proven", 0.0)
    assert (found.safe, found.openings) == ((), 0)
    assert not (folder / "testsets" / "openings.jsonl").exists()
    assert "Such a proof takes at least 72 independent rows" in " ".join(found.verdict)
    assert "not proven safe to delete: idle" not in " ".join(found.verdict)  # said before


@pytest.mark.slow
def test_presets_are_held_against_the_complete_prompt(folder: Path, model: ScriptedServer) -> None:
    settings(folder, model.url, prompt="")
    found = ablated(folder, AblationOptions(presets=("a8",), limit=3, personas=("engineer",)))
    assert len(found.ablation.parts) == 15
    assert {one.design for one in found.ablation.parts} == {"preset"}
    labels = [one.label for one in found.ablation.parts]
    assert labels[0] == "without_length (13B)"
    assert "role_and_tailor_only (13O)" in labels
    assert len(model.requests) == 3 * 16
    names = ("without_instructions", "role_and_tailor_only", "question_before_context")
    more, less, swapped = (part(found.ablation, name, "preset").tokens or 0 for name in names)
    assert more > less > swapped == 0
    # Without a persona its parts are empty: prompts that come out equal are asked once.
    model.requests.clear()
    how = AblationOptions(presets=("all",), limit=3)
    with Workbench.open(folder) as bench:
        forecast = bench.forecast_ablate(str(folder / "set.jsonl"), "Contains", how).forecast
    first, again = ablated(folder, how), ablated(folder, how)
    assert (again.run, again.ablation) == (first.run, first.ablation)
    bodies = {json.dumps(request.body) for request in model.requests}
    assert len(model.requests) == len(bodies) == forecast.calls.expected < 3 * 16
    assert forecast.calls.exact


def test_no_verdict_rests_on_rows_that_failed(folder: Path, model: ScriptedServer) -> None:
    model.play(lambda request: "" if "IDLE" in str(request.body) else reads(request))
    found = ablated(folder, AblationOptions(parts=("idle",), limit=3)).ablation
    [said] = found.verdict
    assert said.startswith("No result: no row has a score")
    assert any("3 of 6 answers failed and are left out" in note for note in found.notes)
    assert not found.safe


def test_personas_of_one_question_are_never_independent(
    folder: Path, model: ScriptedServer
) -> None:
    model.play(lambda request: "K1" if "IDLE" in request.prompt else str(len(request.prompt)))
    how = AblationOptions(parts=("idle",), personas=BOTH, limit=6)
    found = [ablated(folder, replace(how, clusters=by)).ablation.parts for by in ("", "row")]
    assert found[0] == found[1]


BAD = "order: [role, idle, context, question]\nparts:\n  role: one\n  idle: '{{ personna }}'\n"
OWN = "template: prompts/own.yaml"
SHORTER = f"preset: without_style, {OWN}"
ALREADY = "already the preset 'without_style'"
REFUSED = [
    (OWN, {"parts": ("ground",)}, PromptError, "no part 'ground'.*own.yaml.*grounding"),
    (OWN, {"presets": ("without_lenght",)}, StudyError, "unknown prompt.*without_length"),
    (OWN, {"personas": ("marketting",)}, PromptError, "unknown persona.*marketing"),
    (OWN, {"parts": ("idle", "plain")}, PromptError, "empty in every row"),
    (OWN, {"margin": 5}, ConfigError, "must be between 0 and 1"),
    ("template: prompts/bad.yaml", {}, PromptError, "'personna' is undefined.*bad.yaml:4"),
    (SHORTER, {"presets": ("all",)}, StudyError, ALREADY),
    (None, {}, ConfigError, "no prompt without a chat model"),
]


def test_what_cannot_be_ablated_is_said_at_once(folder: Path, model: ScriptedServer) -> None:
    (folder / "prompts" / "bad.yaml").write_text(BAD)
    for prompt, how, kind, said in REFUSED:
        settings(folder, model.url, prompt=prompt or "")
        if prompt is None:
            (folder / "ragwright.yaml").write_text("sources: [docs]\n")
        options = AblationOptions(**how)  # type: ignore[arg-type]
        with Workbench.open(folder) as bench, pytest.raises(kind, match=f"(?s){said}"):
            plan_ablation(bench.project, str(folder / "set.jsonl"), "Contains", options)
    assert model.requests == []
