"""Curves of suites as a table and as JSON."""

from __future__ import annotations

import json

from ragwright.experiment import Curve, CurvePoint
from ragwright.report import curves_json, curves_table

NOISE = Curve(
    "noise",
    "accuracy",
    "Contains",
    "share of irrelevant passages",
    "all",
    (
        CurvePoint(0.0, 5, 5, {}, 1.0, 0.4782, 1.0, 0.0, 0.2, 0.8, 0.4, 1.0, 5),
        CurvePoint(2 / 3, 4, 4, {"errored": 1}, 0.5, 0.0676, 0.9324, 0.25, 0.2, 0.3, -0.5, 0.9, 4),
    ),
    -0.5,
    -1.0,
    0.1,
)
SOURCES = Curve(
    "sources", "share of parts", "Contains", "questions joined", "all", (CurvePoint(2.0, 0),)
)


def test_a_table_a_curve() -> None:
    text = curves_table([NOISE, SOURCES], notes=["one note"])
    assert text.splitlines()[:5] == [
        "noise: accuracy (Contains) over share of irrelevant passages",
        "dose    mean  95 % interval     n  abstained  closed book  above it  95 % interval",
        "----  ------  ----------------  -  ---------  -----------  --------  -----------------",
        "  0%  1.0000  0.4782 to 1.0000  5         0%       0.2000   +0.8000  0.4000 to 1.0000",
        " 67%  0.5000  0.0676 to 0.9324  4        25%       0.2000   +0.3000  -0.5000 to 0.9000",
    ]
    assert "from the first dose to the last: -0.5000 (-1.0000 to 0.1000)" in text
    assert "without a value: errored 1" in text
    assert "   2     -              -  0          -" in text  # a number of questions, no share
    assert text.endswith("note: one note")


def test_long_titles_are_wrapped() -> None:
    curve = Curve(
        "counterfactual",
        "errors corrected, of those reported",
        "ErrorCorrection",
        "share of falsified passages",
        "known",
        (CurvePoint(1.0, 1, 1, {}, 1.0),),
    )
    lines = curves_table([curve]).splitlines()
    assert max(map(len, lines)) <= 100
    assert " ".join(line.strip() for line in lines[:2]).endswith("known without passages")


def test_json_holds_every_number() -> None:
    document = json.loads(json.dumps(curves_json([NOISE], run="r", notes=["n"])))
    assert (document["run"], document["notes"]) == ("r", ["n"])
    [curve] = document["curves"]
    assert curve["change_low"] == -1.0
    assert curve["points"][1]["without"] == {"errored": 1}
    assert curve["points"][0]["above"] == 0.8
