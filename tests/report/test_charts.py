"""Charts are valid, say what their tables say, and can be read in both themes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from study_subject import MakeStudy

from ragwright.measure import MeasureScale
from ragwright.report import (
    DARK,
    LIGHT,
    Report,
    ResultBlock,
    Subject,
    Theme,
    apply_theme,
    heat,
    heat_span,
    parameter_relations,
    spearman,
)


def charts(subject: Subject) -> dict[str, ResultBlock]:
    return {chart.name: chart for chart in Report(subject).charts}


def test_a_study_has_its_charts() -> None:
    found = charts(MakeStudy()(8))
    assert set(found) >= {
        "pareto",
        "heat",
        "key-chunk-size",
        "key-retrieve-top_k",
        "key-prompt-preset",
        "context",
        "personas-T000",
        "histogram-Faithfulness",
        "keys-and-measures",
        "differences",
    }
    assert all(len(row) == len(chart.head) for chart in found.values() for row in chart.rows)


@pytest.mark.slow
def test_specs_compile_and_draw() -> None:
    import vl_convert as convert

    for chart in charts(MakeStudy()(8)).values():
        assert chart.spec is not None
        for theme in (LIGHT, DARK):
            spec = apply_theme(chart.spec, theme, 500)
            assert "@" not in json.dumps({k: v for k, v in spec.items() if k != "data"}).replace(
                "values", ""
            ), chart.name
            drawn = convert.vegalite_to_vega(spec)
            assert drawn["marks"], chart.name
    svg = convert.vegalite_to_svg(
        apply_theme(charts(MakeStudy()(8))["heat"].spec or {}, LIGHT, 500)
    )
    assert svg.startswith("<svg")
    assert "retrieve.top_k" in svg


def test_the_heat_map_is_the_mean_of_its_trials() -> None:
    subject = MakeStudy()(13)
    chart = charts(subject)["heat"]
    for size, top_k, mean, trials in chart.rows:
        found = [
            entry.value("TokenF1")
            for entry in subject.entries
            if entry.values.get("chunk.size") == int(size)
            and entry.values.get("retrieve.top_k") == int(top_k)
        ]
        assert str(len(found)) == trials
        assert float(mean) == pytest.approx(np.mean([v for v in found if v is not None]), abs=1e-4)


@pytest.mark.parametrize(
    ("means", "scale", "low", "high"),
    [
        ((0.925, 0.929), MeasureScale(0.0, 1.0), 0.877, 0.977),
        ((0.97, 0.99), MeasureScale(0.0, 1.0), 0.9, 1.0),  # within the scale
        ((0.2, 0.8), MeasureScale(0.0, 1.0), 0.2, 0.8),
        ((3.0, 3.1), MeasureScale(1.0, 5.0), 2.85, 3.25),
        ((2.0, 2.0), MeasureScale(0.0, None), 1.9, 2.1),
        ((0.0, 0.0), None, -0.05, 0.05),
    ],
)
def test_colours_run_over_a_tenth_of_the_scale_at_least(
    means: tuple[float, ...], scale: MeasureScale | None, low: float, high: float
) -> None:
    assert heat_span(scale, means) == pytest.approx((low, high))


def test_the_legend_of_a_heat_map_says_what_its_colours_run_over() -> None:
    chart = charts(MakeStudy()(13))["heat"]
    found = re.search(r"The colours run from ([\d.-]+) to ([\d.-]+)", chart.note)
    assert found is not None
    assert float(found[2]) - float(found[1]) >= 0.0999
    assert chart.spec is not None
    shades = [cell["shade"] for cell in chart.spec["data"]["values"]]
    assert all(0 <= shade <= 1 for shade in shades)


def test_no_trial_beats_one_on_the_front() -> None:
    subject = MakeStudy()(12)
    front = [row for row in charts(subject)["pareto"].rows if row[4] == "on the front"]
    assert front
    for name, _, quality, cost, _ in front:
        better = [
            entry.id
            for entry in subject.entries
            if entry.id != name
            and (entry.value("TokenF1") or 0) > float(quality) + 1e-4
            and entry.facts["cost"] < float(cost)
        ]
        assert not better


def test_a_text_that_looks_like_a_colour_stays_a_text() -> None:
    spec = heat(
        [{"x": "@ink", "y": "@accent", "shade": 0.5, "text": "@bad", "told": ""}], x="", y=""
    )
    drawn = apply_theme(spec, LIGHT)
    assert drawn["data"]["values"][0]["text"] == "@bad"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=4, max_size=30))
def test_spearman_is_the_correlation_of_mean_ranks(pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    found = spearman(first, second).rho

    def ranks(side: tuple[int, ...]) -> list[float]:
        return [sum(o < v for o in side) + (sum(o == v for o in side) + 1) / 2 for v in side]

    a, b = ranks(first), ranks(second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(float(np.corrcoef(a, b)[0, 1]), abs=1e-5)


def test_names_become_columns_of_their_own() -> None:
    found = parameter_relations(MakeStudy()(8))
    names = {one.second for one in found}
    assert names == {"chunk.size", "retrieve.top_k", "prompt.preset = complete"}
    with_tokens = [one for one in found if one.first == "context_tokens"]
    assert all(one.n == 7 for one in with_tokens)  # trial 0 has no values of its own


def test_four_pairs_at_least() -> None:
    assert spearman([1, 2, 3], [1, 2, 3]).rho is None
    assert spearman([1, 2, 3, None], [1, 2, 3, 4]).n == 3


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_in_a_cell_can_be_read(theme: Theme) -> None:
    low, middle, high = theme["@diverging"]
    for start, end, cross in (
        (*theme["@ramp"], theme["@cross"]),
        (middle, high, theme["@wide"]),
        (middle, low, theme["@wide"]),
    ):
        for step in range(101):
            shade = step / 100
            ground = [a + (b - a) * shade for a, b in zip(_rgb(start), _rgb(end), strict=True)]
            text = theme["@highText"] if shade > cross else theme["@lowText"]
            assert _contrast(ground, _rgb(text)) >= 4.45, (start, end, shade)


@pytest.mark.parametrize(
    ("theme", "ground"), [(LIGHT, "#fbfbfa"), (DARK, "#14181c")], ids=["light", "dark"]
)
def test_text_on_the_page_can_be_read(theme: Theme, ground: str) -> None:
    for name in ("@ink", "@quiet", "@accent", "@second", "@good", "@bad"):
        assert _contrast(_rgb(theme[name]), _rgb(ground)) >= 4.5, name


def _rgb(colour: str) -> list[float]:
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def _contrast(first: list[float], second: list[float]) -> float:
    """WCAG 2."""
    lights = []
    for colour in (first, second):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)
