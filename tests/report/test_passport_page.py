"""The page of a passport: whom to trust comes first, and one file holds everything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragwright.experiment import (
    FreeDifference,
    GroupBias,
    JudgeFigures,
    JudgePassport,
    LabelPlan,
    Passport,
    PeopleFigures,
)
from ragwright.measure import Estimate
from ragwright.report import passport_html, passport_verdict

JUDGE = "Faithfulness by openai:x"
PEOPLE = PeopleFigures(
    "faithfulness", 1, 4, rows=90, labels=270, raters=3, tasks=45, twice=90,
    spearman=Estimate(0.5, 0.4, 0.6),
)  # fmt: skip
FREE = JudgePassport(
    "KPrecision", "free", "KPrecision", cost=0.0,
    dimensions={
        "faithfulness": JudgeFigures(
            90, 45, spearman=Estimate(0.6, 0.5, 0.7), one_person=Estimate(0.5, 0.4, 0.6),
            advice="KPrecision agrees best.", trusted=True,
        ),
    },
)  # fmt: skip


def judged(difference: Estimate, agreement: Estimate, one: float = 0.5) -> Passport:
    """A passport of a model and a free measure."""
    figures = JudgeFigures(
        90,
        45,
        spearman=agreement,
        one_person=Estimate(one, one - 0.1, one + 0.1),
        bias=Estimate(0.2, 0.1, 0.3),
        groups={"system": (
            GroupBias("<b>a", 45, Estimate(0.4, 0.2, 0.6)),
            GroupBias("b", 45, Estimate(0.0, -0.2, 0.2)),
        )},
        versus=(FreeDifference("KPrecision", 90, difference),),
        plan=LabelPlan(0.05, 120, 200, 0.4),
        advice="What to do.",
        trusted=(agreement.low or 0) > 0 and not (difference.high or 0) < 0,
    )  # fmt: skip
    model = JudgePassport(
        "Faithfulness by openai:x", "model", "Faithfulness", "openai:x",
        unusable=Estimate(0.02, 0.0, 0.05), cost=0.25, dimension="faithfulness",
        dimensions={"faithfulness": figures},
    )  # fmt: skip
    return Passport("mine", "mine.jsonl", 90, 45, (PEOPLE,), (model, FREE), ("left out: 3 rows",))


HIGH = Estimate(0.7, 0.6, 0.8)


WORSE, BETTER, EVEN = (
    Estimate(-0.09, -0.18, -0.01),
    Estimate(0.1, 0.02, 0.2),
    Estimate(-0.02, -0.1, 0.06),
)
NOBODY = "No judge and no person scored the same rows."


@pytest.mark.parametrize(
    ("passport", "state", "text"),
    [
        (judged(WORSE, HIGH), "worse", "What to do."),
        (judged(BETTER, HIGH), "better", "What to do."),
        (judged(EVEN, HIGH), "open", "What to do."),
        (judged(Estimate(), Estimate(0.1, -0.05, 0.2)), "worse", "What to do."),
        (replace(judged(Estimate(), HIGH), judges=(FREE,)), "better", "KPrecision agrees best."),
        (replace(judged(Estimate(), HIGH), judges=()), "open", NOBODY),
    ],
)
def test_the_verdict_says_whom_to_trust(passport: Passport, state: str, text: str) -> None:
    verdict = passport_verdict(passport)
    assert (verdict.text, verdict.state) == (text, state)


def test_the_page_holds_every_part_and_escapes_names() -> None:
    passport = judged(WORSE, HIGH)
    page = passport_html(passport)
    for part in ("agreement", "differences", "bias", "replies", "labels", "method"):
        assert f'<section id="{part}"' in page
    assert "people with each other" in page
    assert "2.0%" in page
    assert "0.25" in page
    assert "5% of the scale" in page
    assert "left out: 3 rows" in page
    assert "<b>a" not in page
    assert "&lt;b&gt;a" in page
    data = page.partition('id="report-data">')[2].partition("</script>")[0]
    specs = json.loads(data)["charts"]
    assert list(specs) == ["agreement-faithfulness", "difference-faithfulness", "bias-0-system"]
    drawn = specs["agreement-faithfulness"]["data"]["values"]
    assert [point["of"] for point in drawn] == ["people", "judge", "free"]
    free = passport_html(replace(passport, judges=(FREE,)))
    assert '<section id="replies"' not in free
    assert passport_html(passport) == page


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(passport_html(judged(WORSE, HIGH)))
    faults: list[str] = []
    asked: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    for _ in range(400):
        if page.evaluate("document.querySelectorAll('[data-drawn]').length") == 3:
            break
        page.wait_for_timeout(25)
    wide = page.evaluate("document.documentElement.scrollWidth")
    drawn = page.evaluate("document.querySelectorAll('[data-drawn] svg.marks').length")
    page.close()
    assert (faults, asked, drawn, wide) == ([], [path.as_uri()], 3, width)
