"""Ablations against a generator whose quality hangs on its prompt in a known way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stations")
    for name in ("docs", "prompts", "personas"):
        (made / name).mkdir()
    for n in range(STATIONS):
        text = f"The access code of station S{n} is K{n}7Q."
        (made / "docs" / f"station-{n:02d}.txt").write_text(text)
    (made / "prompts" / "own.yaml").write_text(TEMPLATE)
    (made / "personas" / "marketing.yaml").write_text("audience: people who sell\n")
    (made / "personas" / "engineer.yaml").write_text(
        "audience: people who build\nanswer_length: long\nwriting_style: dry\n"
    )
    lines = [
        {
            "id": f"s{n:02d}",
            "user_input": f"Which is the access code of station S{n}?",
            "reference": f"K{n}7Q",
            "split": "tune" if n < TUNE else "confirm",
        }
        for n in range(STATIONS)
    ]
    (made / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    settings(made, "http://127.0.0.1:9/v1")
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


def settings(folder: Path, url: str, more: str = "") -> None:
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs]\nanswer: {{model: '{url}#reader', max_tokens: 30}}\n"
        f"retrieve: {{top_k: 1}}\nprompt: {{template: prompts/own.yaml}}\n{more}"
    )


@pytest.fixture
def model(folder: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(reads) as server:
        settings(folder, server.url)
        log = folder / "testsets" / "openings.jsonl"
        log.unlink(missing_ok=True)
        yield server


BOTH = ("engineer", "marketing")


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
def test_every_planted_effect_is_found_and_nothing_else(
    folder: Path, model: ScriptedServer
) -> None:
    found = ablated(folder, AblationOptions(leave_one_out=True, personas=BOTH, margin=0.1)).ablation
    assert found.rows == 2 * TUNE
    assert [one.part for one in found.parts] == [
        "role",
        "grounding",
        "plain",
        "first",
        "second",
        "idle",
        "turn_markers",
    ]
    hard = round(sum(n % 3 > 0 for n in range(TUNE)) / TUNE, 9)
    assert effect(part(found, "grounding")) == ("helps", hard)
    assert effect(part(found, "plain")) == ("helps", 0.5)
    assert effect(part(found, "plain"), "marketing") == ("helps", 1.0)
    assert effect(part(found, "plain"), "engineer") == ("no effect proven", 0.0)
    for name in ("first", "second"):
        assert effect(part(found, name)) == ("no effect proven", 0.0)
    assert {one.part for one in found.safe} == {one.part for one in found.parts} - {
        "grounding",
        "plain",
    }
    assert not part(found, "plain").safe  # though it does nothing for one persona
    text = ablation_table(found)
    assert text.startswith(f"Proven on 80 rows: grounding helps (Contains {hard:+.4f}")
    # Of two parts that say the same, either does it all where the other is missing.
    without = Session(("prompt.without=[first]",))
    alone = ablated(folder, AblationOptions(parts=("second",), personas=BOTH), without).ablation
    assert effect(part(alone, "second")) == ("helps", 1.0)


@pytest.mark.slow
def test_confirming_opens_the_split_once_and_refutes_deleting_twins_together(
    folder: Path, model: ScriptedServer
) -> None:
    how = AblationOptions(
        parts=("first", "second", "idle"), personas=BOTH, margin=0.1, confirm=True
    )
    result = ablated(folder, how)
    found = result.ablation
    assert {one.part for one in found.parts if one.holds} == {"first", "second", "idle"}
    assert found.together is not None
    assert found.together.part == "first + second + idle"
    assert found.together.holds is False
    assert found.openings == 1
    assert found.confirm_rows == 2 * (STATIONS - TUNE)
    assert "some parts may be redundant" in " ".join(found.verdict)
    log = folder / "testsets" / "openings.jsonl"
    asked = len(model.requests)
    again = ablated(folder, how)
    assert again.again
    assert again.ablation == found
    assert again.run == result.run
    assert len(log.read_text().splitlines()) == 1
    assert len(model.requests) == asked
    assert "not shown" in ablation_table(found)


def test_what_few_rows_leave_possible_is_not_called_safe(
    folder: Path, model: ScriptedServer
) -> None:
    found = ablated(folder, AblationOptions(parts=("idle",), limit=20, confirm=True)).ablation
    assert effect(part(found, "idle")) == ("no effect proven", 0.0)
    assert not found.safe
    assert found.openings == 0
    assert not (folder / "testsets" / "openings.jsonl").exists()
    assert "Such a proof takes at least 72 independent rows" in " ".join(found.verdict)
    assert "not proven safe to delete: idle" not in " ".join(found.verdict)  # said before


def test_rows_of_one_question_are_one_observation(folder: Path, model: ScriptedServer) -> None:
    how = AblationOptions(parts=("idle",), personas=BOTH, limit=10)
    found = ablated(folder, how).ablation
    [told] = [one for one in part(found, "idle").effects if not one.persona]
    assert (told.n, told.clusters, told.independent) == (20, 10, 10)


@pytest.mark.slow
def test_tokens_are_those_of_the_prompts_that_were_sent(
    folder: Path, model: ScriptedServer
) -> None:
    name = f"{model.url}#reader"
    settings(folder, model.url, f"models: {{'{name}': {{price_in: 2.0, price_out: 0}}}}\n")
    how = AblationOptions(leave_one_out=True, limit=6, personas=("engineer", "marketing"))
    with Workbench.open(folder) as bench:
        found = bench.ablate(str(folder / "set.jsonl"), "Contains", how).ablation
        count = bench.project.tokenizer.count
    plain = count("PLAIN Write for people in a hurry.")
    assert part(found, "plain").tokens == plain / 2  # one persona of two has it
    for name, text in (("idle", "IDLE Be kind to animals."), ("first", "FIRST Give the code.")):
        assert part(found, name).tokens == count(text)
    idle = part(found, "idle")
    assert idle.tokens is not None
    assert idle.cost == pytest.approx(idle.tokens * 1000 * 2.0 / 1e6)
    # the same number again, from what the server saw
    whole: list[int] = []
    less: list[int] = []
    for request in model.requests:
        text = "\n".join(str(m["content"]) for m in request.body["messages"])
        if "who build" in text and all(w in text for w in ("ROLE", "GROUND", "FIRST", "SECOND")):
            size = sum(count(str(m["content"])) for m in request.body["messages"])
            if "###" in text:
                (whole if "IDLE" in text else less).append(size)
    assert sum(whole) - sum(less) == 6 * count("IDLE Be kind to animals.")


@pytest.mark.slow
def test_presets_are_held_against_the_complete_prompt(folder: Path, model: ScriptedServer) -> None:
    settings(folder, model.url)
    file = folder / "ragwright.yaml"
    file.write_text(file.read_text().replace("prompt: {template: prompts/own.yaml}\n", ""))
    how = AblationOptions(presets=("a8",), limit=3, personas=("engineer",))
    found = ablated(folder, how)
    assert len(found.ablation.parts) == 15
    assert {one.design for one in found.ablation.parts} == {"preset"}
    labels = [one.label for one in found.ablation.parts]
    assert labels[0] == "without_length (13B)"
    assert "role_and_tailor_only (13O)" in labels
    assert len(model.requests) == 3 * 16
    swapped = part(found.ablation, "question_before_context", "preset")
    assert swapped.tokens == 0
    more = part(found.ablation, "without_instructions", "preset").tokens
    less = part(found.ablation, "role_and_tailor_only", "preset").tokens
    assert more is not None
    assert less is not None
    assert more > less > 0


@pytest.mark.slow
def test_nothing_is_asked_twice_and_the_forecast_is_exact(
    folder: Path, model: ScriptedServer
) -> None:
    how = AblationOptions(leave_one_out=True, personas=("marketing",), limit=5)
    with Workbench.open(folder) as bench:
        forecast = bench.forecast_ablate(str(folder / "set.jsonl"), "Contains", how)
        assert forecast.trials == 1 + 7
        assert forecast.forecast.calls.exact
        assert model.requests == []
    first = ablated(folder, how)
    assert len(model.requests) == forecast.forecast.calls.expected == 8 * 5
    again = ablated(folder, how)
    assert len(model.requests) == 8 * 5
    assert (again.run, again.ablation) == (first.run, first.ablation)


@pytest.mark.slow
def test_prompts_that_come_out_equal_are_forecast_and_asked_once(
    folder: Path, model: ScriptedServer
) -> None:
    """Without a persona its parts are empty: leaving them out asks nothing new."""
    file = folder / "ragwright.yaml"
    file.write_text(file.read_text().replace("prompt: {template: prompts/own.yaml}\n", ""))
    how = AblationOptions(presets=("all",), limit=3)
    with Workbench.open(folder) as bench:
        forecast = bench.forecast_ablate(str(folder / "set.jsonl"), "Contains", how)
    ablated(folder, how)
    bodies = {json.dumps(request.body) for request in model.requests}
    assert len(model.requests) == len(bodies) == forecast.forecast.calls.expected < 3 * 16
    assert forecast.forecast.calls.exact


def test_rows_that_fail_are_said_and_no_verdict_rests_on_them(
    folder: Path, model: ScriptedServer
) -> None:
    model.play(lambda request: "" if "IDLE" in str(request.body) else reads(request))
    how = AblationOptions(parts=("idle",), limit=3)
    found = ablated(folder, how).ablation
    [said] = found.verdict
    assert said.startswith("No result: no row has a score")
    assert any("3 of 6 answers failed and are left out" in note for note in found.notes)
    assert not found.safe


def test_a_budget_leaves_a_part_of_the_story_and_it_goes_on(
    folder: Path, model: ScriptedServer
) -> None:
    name = f"{model.url}#reader"
    price = f"models: {{'{name}': {{price_in: 0, price_out: 100000, concurrency: 1}}}}\n"
    settings(folder, model.url, price)
    how = AblationOptions(parts=("idle", "first"), personas=("engineer",), limit=4, confirm=True)
    part_of = ablated(folder, how, Session(max_cost=5.0))
    assert part_of.stopped is not None
    assert len(part_of.ablation.parts) < 2
    assert part_of.ablation.openings == 0
    paid = len(model.requests)
    assert 0 < paid < 12
    whole = ablated(folder, how)
    assert whole.stopped is None
    assert len(whole.ablation.parts) == 2
    assert len(model.requests) <= 12 + 2


@pytest.mark.slow
def test_the_report_reads_what_was_stored(folder: Path, model: ScriptedServer) -> None:
    how = AblationOptions(parts=("grounding", "idle"), personas=BOTH, margin=0.1, name="parts")
    result = ablated(folder, how)
    with Workbench.open(folder) as bench:
        subject = report_subject(bench.project.folder, bench.project.runs, ["parts"])
    assert subject.ablation == result.ablation
    assert {entry.id for entry in subject.entries} >= {"T000", "T001", "T002"}
    json.dumps(ablation_json(result.ablation, run=result.run))


def refused(folder: Path, how: AblationOptions, kind: type[Exception], match: str) -> str:
    with Workbench.open(folder) as bench, pytest.raises(kind, match=match) as caught:
        plan_ablation(bench.project, str(folder / "set.jsonl"), "Contains", how)
    return str(caught.value)


def test_what_cannot_be_ablated_is_said_before_anything_is_asked(
    folder: Path, model: ScriptedServer
) -> None:
    said = refused(folder, AblationOptions(parts=("ground",)), PromptError, "no part 'ground'")
    assert "did you mean 'grounding'?" in said
    assert "own.yaml" in said
    said = refused(
        folder, AblationOptions(presets=("without_lenght",)), StudyError, "unknown prompt"
    )
    assert "did you mean 'without_length'?" in said
    said = refused(
        folder, AblationOptions(personas=("marketting",)), PromptError, "unknown persona"
    )
    assert "did you mean 'marketing'?" in said
    refused(folder, AblationOptions(parts=("idle", "plain")), PromptError, "empty in every row")
    refused(folder, AblationOptions(margin=5), ConfigError, "must be between 0 and 1")
    (folder / "prompts" / "bad.yaml").write_text("parts:\n  role: one\n  idle: '{{ personna }}'\n")
    file = folder / "ragwright.yaml"
    file.write_text(file.read_text().replace("own.yaml", "bad.yaml"))
    with Workbench.open(folder) as bench:
        assert bench.project.settings.prompt.template.endswith("bad.yaml")
    text = (folder / "prompts" / "bad.yaml").read_text()
    (folder / "prompts" / "bad.yaml").write_text(f"order: [role, idle, context, question]\n{text}")
    said = refused(folder, AblationOptions(), PromptError, "'personna' is undefined")
    assert "bad.yaml:4" in said
    file.write_text(file.read_text().replace("prompt: {", "prompt: {preset: without_style, "))
    (folder / "prompts" / "bad.yaml").write_text(TEMPLATE)
    refused(
        folder, AblationOptions(presets=("all",)), StudyError, "already the preset 'without_style'"
    )
    file.write_text("sources: [docs]\n")
    refused(folder, AblationOptions(), ConfigError, "no prompt without a chat model")
    assert model.requests == []
