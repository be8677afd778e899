"""Ablation plans, the presets held to their names, and effects computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragwright.answer import PromptOptions, compose, load_shipped_personas, presets, prompt_parts
from ragwright.core import Hit, PromptError, Score, StudyError, make_plain
from ragwright.experiment import (
    EffectOptions,
    PartResult,
    RowResult,
    StudyOptions,
    ablation_plan,
    add_effects,
    grid_points,
    prompt_of,
    read_plain,
    rebuild_study,
)
from ragwright.measure import MeasureScale, least_rows

BASE = PromptOptions()
STUDY = StudyOptions(testset="t.jsonl")
UNIT = {"m": MeasureScale(0.0, 1.0)}


def parts(options: PromptOptions) -> dict[str, str]:
    text = "The pump starts at 80 degrees."
    hit = Hit(1, 1.0, "m.md", "c1", "m.md", "Manual", None, 0, len(text), text)
    return dict(compose("Why?", load_shipped_personas()["engineer"], [hit], options).parts)


def test_one_trial_a_variant_however_often_it_is_asked_for() -> None:
    numbers = [one["source"] for one in presets().values()]
    assert numbers == [f"13{letter}" for letter in "ABCDEFGHIJKLMNOP"]
    names = ("role", "tailor", "role", "assistant_cue")
    study, results = ablation_plan(("complete", "without_style"), names, BASE, STUDY)
    points = study.points
    contrasts = {one.part: one.trial for one in results}
    assert contrasts == {"without_style": 1, "role": 2, "tailor": 3, "assistant_cue": 4}
    assert study.size == len(points) == 4
    assert list(grid_points(study)) == list(points)
    composed = [parts(prompt_of(BASE, point)) for point in points]
    everything = set(prompt_parts(BASE))
    gone: list[set[str]] = [everything - one.keys() for one in composed]
    assert gone == [{"persona_style"}, {"role"}, {"tailor"}, set()]
    assert "Assistant:" not in composed[3]["turn_markers"]
    again = rebuild_study(study.described())
    assert (again.points, again.options, again.name) == (points, study.options, study.name)
    # What the project leaves out itself stays out.
    base = PromptOptions(without=("tailor",))
    study, results = ablation_plan((), ("role", "tailor"), base, STUDY)
    assert [point["prompt.without"] for point in study.points] == [["tailor", "role"]]
    assert [one.trial for one in results] == [1, 0]


def test_what_makes_no_study_is_refused() -> None:
    with pytest.raises(StudyError, match="leaves nothing out"):
        ablation_plan(("complete",), (), BASE, STUDY)
    with pytest.raises(PromptError, match="unknown prompt part"):
        prompt_parts(PromptOptions(without=("rolle",)))


def results(values: Sequence[float]) -> list[RowResult]:
    return [RowResult(f"r{n}", (), (Score("m", "scored", one),)) for n, one in enumerate(values)]


def test_less_is_better_turns_the_sign() -> None:
    _, planned = ablation_plan((), ("role",), BASE, STUDY)
    trials = {0: results([2.0 + n % 3 for n in range(24)]), 1: results([5.0] * 24)}
    how = EffectOptions({"m": MeasureScale(0.0, 9.0, False)})
    [part] = add_effects(planned, trials, how)
    [told] = part.effects
    assert told.verdict == "helps"
    assert told.difference == pytest.approx(2.0)
    assert (told.low or 9) < 2.0 < (told.high or 0)
    assert (told.loss or 0) > 2.0


def test_p_values_are_corrected_for_the_parts_and_personas_apart() -> None:
    _, planned = ablation_plan((), ("role", "tailor"), BASE, STUDY)
    values = {0: [1.0] * 8, 1: [0.0] * 6 + [1.0] * 2, 2: [1.0] * 7 + [0.0]}
    personas = {f"r{n}": "a" if n < 4 else "b" for n in range(8)}
    trials = {number: results(one) for number, one in values.items()}
    told = {
        (one.part, effect.persona): effect
        for one in add_effects(planned, trials, EffectOptions(UNIT, personas))
        for effect in one.effects
    }
    assert told["role", ""].p == pytest.approx(2 / 2**6)
    assert told["role", ""].p_holm == pytest.approx(4 / 2**6)
    assert told["role", "a"].p == pytest.approx(2 / 2**4)
    assert told["role", "a"].p_holm == pytest.approx(8 / 2**4)
    assert told["tailor", ""].p_holm == 1.0


def test_a_result_comes_back_as_it_was_stored() -> None:
    _, planned = ablation_plan((), ("role",), BASE, STUDY)
    trials = {0: results([1.0] * 100), 1: results([1.0] * 100)}
    [one] = add_effects(planned, trials, EffectOptions(UNIT))
    found = replace(one, tokens=3.0, confirmed=one.effects)
    assert (found.safe, found.holds, found.state) == (True, True, "safe to delete, confirmed")
    assert read_plain(PartResult, make_plain(found)) == found


@pytest.mark.parametrize("margin", [0.01, 0.05, 0.2])
def test_the_least_number_of_rows_is_the_least(margin: float) -> None:
    rows = least_rows(margin)
    assert 1 - 0.025 ** (1 / rows) < margin <= 1 - 0.025 ** (1 / (rows - 1))
