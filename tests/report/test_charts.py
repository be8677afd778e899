"""Charts are valid, say what their tables say, and can be read in both themes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from study_subject import MakeStudy

from ragwright.report import (
    DARK,
    LIGHT,
    Report,
    ResultBlock,
    Subject,
    apply_theme,
    heat,
    parameter_relations,
    spearman,
)


def charts(subject: Subject) -> dict[str, ResultBlock]:
    return {chart.name: chart for chart in Report(subject).charts}


STUDY = MakeStudy()(13)
CHARTS = charts(STUDY)
NAMES = {"heat", "key-chunk-size", "key-retrieve-top_k", "key-prompt-preset"}
NAMES |= {"personas-T000", "histogram-Faithfulness", "keys-and-measures", "differences"}


def test_a_study_has_its_charts() -> None:
    assert set(CHARTS) >= NAMES
    assert all(len(row) == len(chart.head) for chart in CHARTS.values() for row in chart.rows)


@pytest.mark.slow
def test_specs_compile_and_draw() -> None:
    import vl_convert as convert

    for chart in charts(MakeStudy()(8)).values():
        for theme in (LIGHT, DARK):
            spec = apply_theme(chart.spec or {}, theme, 500)
            told = json.dumps({k: v for k, v in spec.items() if k != "data"})
            assert "@" not in told.replace("values", ""), chart.name
            assert convert.vegalite_to_vega(spec)["marks"], chart.name
    svg = convert.vegalite_to_svg(apply_theme(CHARTS["heat"].spec or {}, LIGHT, 500))
    assert svg.startswith("<svg")
    assert "retrieve.top_k" in svg


def test_the_heat_map_is_the_mean_of_its_trials_and_says_what_its_colours_run_over() -> None:
    chart = CHARTS["heat"]
    for size, top_k, mean, trials in chart.rows:
        place = {"chunk.size": int(size), "retrieve.top_k": int(top_k)}
        found = [
            one.value("TokenF1") for one in STUDY.entries if place.items() <= one.values.items()
        ]
        assert str(len(found)) == trials
        assert float(mean) == pytest.approx(np.mean([v for v in found if v is not None]), abs=1e-4)
    ends = re.search(r"The colours run from ([\d.-]+) to ([\d.-]+)", chart.note)
    assert ends is not None
    assert (float(ends[1]), float(ends[2])) == (0.0, 1.0)
    assert chart.spec is not None
    assert all(0 <= cell["shade"] <= 1 for cell in chart.spec["data"]["values"])


def test_a_text_that_looks_like_a_colour_stays_a_text() -> None:
    cell = {"x": "@ink", "y": "@accent", "shade": 0.5, "text": "@bad", "told": ""}
    drawn = apply_theme(heat([cell], x="", y=""), LIGHT)
    assert drawn["data"]["values"][0]["text"] == "@bad"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=4, max_size=30))
def test_spearman_is_the_correlation_of_mean_ranks(pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    found = spearman(first, second).rho

    def ranks(side: tuple[int, ...]) -> list[float]:
        return [sum(o < v for o in side) + (sum(o == v for o in side) + 1) / 2 for v in side]

    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        correlation = np.corrcoef(ranks(first), ranks(second))[0, 1]
        assert found == pytest.approx(float(correlation), abs=1e-5)


def test_relations_take_four_pairs_and_names_become_columns_of_their_own() -> None:
    assert spearman([1, 2, 3], [1, 2, 3]).rho is None
    assert spearman([1, 2, 3, None], [1, 2, 3, 4]).n == 3
    found = parameter_relations(MakeStudy()(8))
    names = {one.second for one in found}
    assert names == {"chunk.size", "retrieve.top_k", "prompt.preset = complete"}
    # trial 0 has no values of its own
    assert {one.n for one in found if one.first == "context_tokens"} == {7}
