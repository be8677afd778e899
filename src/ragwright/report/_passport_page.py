"""A passport as one HTML file and as a table for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..core import count_noun
from ..experiment import JudgeFigures, JudgePassport, Passport, PeopleFigures
from ..measure import Estimate
from ._charts import Chart, Spec, intervals, kind, whisker
from ._headline import Headline
from ._page import chart_data, figure_of, page_parts, page_template
from ._subject import format_interval
from ._text import WIDTH, text_table

_PEOPLE = "people with each other"
_CHANCE = "better than chance"
_MOST_BIASED = 2
"""Judges whose bias is drawn."""

_MOST_GROUPS = 40

Block = tuple[str, str, str, list[tuple[str, tuple[str, ...], list[tuple[str, ...]], range]]]
"""Id, title, note and tables of a section."""


def passport_html(passport: Passport) -> str:
    """Return the page of a passport as one HTML file that loads nothing."""
    charts = (*_agreement_charts(passport), *_difference_charts(passport), *_bias_charts(passport))
    blocks = [
        (name, title, text, tables)
        for name, title, text, tables in _blocks(passport)
        if any(chart.section == name for chart in charts) or any(lines for _, _, lines, _ in tables)
    ]
    text = page_template("passport.html").render(
        passport=passport,
        verdict=passport_verdict(passport),
        sections=[*((name, title) for name, title, _, _ in blocks), ("method", "Method")],
        facts=_facts(passport),
        blocks=blocks,
        method=[
            *_METHOD,
            f"Seed {passport.seed}; fingerprint of rows and labels "
            f"{passport.fingerprint or 'unknown'}.",
        ],
        charts=[figure_of(chart) for chart in charts],
        data={
            "kind": "passport",
            "incumbent": "",
            "best": "",
            "states": [],
            "measures": [],
            "scales": {},
            "labels": {},
            "settings": {},
            "index": {"rows": 0, "texts": [], "entries": []},
            **chart_data(charts),
        },
        **page_parts(),
    )
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


def passport_verdict(passport: Passport) -> Headline:
    """Return the verdict: whom to trust for what the set was made for, then the other dimensions.

    The judge is the first model or recorded one, else the best free measure; the dimension that
    which the judge is about, else the first.
    """
    texts = []
    for people in passport.people:
        judge = _leading(passport, people.name)
        if judge is not None:
            texts.append((judge.dimension != people.name, _sentence_for(passport, judge, people)))
    if not texts:
        return Headline("No judge and no person scored the same rows.", "open")
    texts.sort(key=lambda pair: pair[0])
    (_, (text, state)), *rest = texts
    return Headline(text, state, tuple(other for _, (other, _) in rest))


def _leading(passport: Passport, dimension: str) -> JudgePassport | None:
    judges = [judge for judge in passport.judges if dimension in judge.dimensions]
    paid = [judge for judge in judges if judge.kind != "free"]
    return max(paid or judges, key=lambda judge: _strength(judge, dimension), default=None)


def _strength(judge: JudgePassport, dimension: str) -> tuple[bool, float]:
    value = judge.dimensions[dimension].spearman.value
    return judge.dimension == dimension, -2 if value is None else value


def _sentence_for(
    passport: Passport, judge: JudgePassport, people: PeopleFigures
) -> tuple[str, str]:
    """Return the verdict on a judge in a dimension, and its state."""
    name, about, figures = judge.name, people.name, judge.dimensions[people.name]
    agreement = figures.spearman
    if agreement.low is None or agreement.low <= 0:
        return f"{name} is not proven better than chance on {about}.", "worse"
    free = passport.best_free(about)
    against = next((f.spearman for f in figures.versus if free and f.name == free.name), None)
    if free is None or judge is free or against is None or against.value is None:
        extent = _compare_with_people(figures, people)
        state = "open" if extent == _CHANCE and judge is not free else "better"
        start = (
            f"Use {name} for {about}: of the free measures here it agrees best with people"
            if judge is free
            else f"{name} agrees with people on {about}"
        )
        comma = "," if judge is free else ""
        ends = f"rank correlation {agreement.value or 0:.2f}, 95 % {agreement.low:.2f} to "
        return f"{start}{comma} {extent} ({ends}{agreement.high or 0:.2f}).", state
    if against.high is not None and against.high < 0:
        return (
            f"Use the free measure {free.name} instead of {name} for {about}: it agrees better "
            f"with people ({_difference_text(against, -1)}).",
            "worse",
        )
    if against.low is not None and against.low > 0:
        extent = f"{_compare_with_people(figures, people)}, and better than any free measure here"
        return (
            f"Trust {name} for {about}: it agrees with people {extent} "
            f"({_difference_text(against, 1)}).",
            "better",
        )
    return (
        f"{name} is not proven better than the free measure {free.name} for {about}: the free one "
        f"will do ({_difference_text(against, 1)}).",
        "open",
    )


def _difference_text(estimate: Estimate, sign: int) -> str:
    """A difference of rank correlations and its interval, in the direction of ``sign``."""
    value, low, high = (
        sign * (end or 0.0) for end in (estimate.value, estimate.low, estimate.high)
    )
    if sign < 0:
        low, high = high, low
    return f"difference {value:.2f}, 95 % {low:.2f} to {high:.2f}"


def _compare_with_people(figures: JudgeFigures, people: PeopleFigures) -> str:
    mine, theirs = figures.one_person, people.spearman
    if mine.value is None or theirs.low is None or theirs.high is None:
        return _CHANCE
    if mine.value < theirs.low:
        return "better than chance, but less well than people agree with each other"
    if mine.value > theirs.high:
        return "at least as well as people agree with each other"
    return "about as well as people agree with each other"


def _agreement_charts(passport: Passport) -> Iterator[Chart]:
    for people in passport.people:
        judges = [judge for judge in passport.judges if people.name in judge.dimensions]
        single = people.twice > 0
        points = []
        if single and people.spearman.value is not None:
            points.append({**_point(_PEOPLE, people.spearman), "of": "people"})
        for judge in judges:
            figures = judge.dimensions[people.name]
            estimate = figures.one_person if single else figures.spearman
            if estimate.value is not None:
                kind_name = "free" if judge.kind == "free" else "judge"
                points.append({**_point(judge.name, estimate), "of": kind_name})
        if not points:
            continue
        ceiling = (
            " Each is held against one person; the first line is how well people agree with each "
            "other."
            if single
            else ""
        )
        yield Chart(
            f"agreement-{people.name}",
            f"Agreement on {people.name}",
            f"Further right is better; 0 is chance, 1 perfect.{ceiling}",
            _colour_kinds(intervals(points, x="rank correlation")),
            _AGREEMENT_HEAD,
            tuple(_agreement_rows(people, judges)),
            "agreement",
        )


_AGREEMENT_HEAD = (
    *("judge", "rows", "with one person", "Spearman", "Kendall", "kappa", "weighted kappa", "AUC"),
    "use it",
)


def _agreement_rows(
    people: PeopleFigures, judges: Sequence[JudgePassport]
) -> Iterator[tuple[str, ...]]:
    if people.twice:
        cells = map(_figure_text, (people.kendall, people.kappa, people.weighted_kappa, people.auc))
        yield (_PEOPLE, str(people.twice), _figure_text(people.spearman), "-", *cells, "")
    for judge in judges:
        own = judge.dimensions[people.name]
        known = (own.one_person, own.spearman, own.kendall, own.kappa, own.weighted_kappa, own.auc)
        cells = map(_figure_text, known)
        yield (judge.name, str(own.rows), *cells, "yes" if own.trusted else "no")


def _difference_charts(passport: Passport) -> Iterator[Chart]:
    for people in passport.people:
        free = passport.best_free(people.name)
        points, lines = [], []
        for judge in passport.judges:
            figures = judge.dimensions.get(people.name)
            for versus in figures.versus if figures and free and judge.kind != "free" else ():
                if versus.spearman.value is None:
                    continue
                if free is not None and versus.name == free.name:
                    points.append(_point(judge.name, versus.spearman))
                lines.append(
                    (judge.name, versus.name, str(versus.rows), _figure_text(versus.spearman, "+"))
                )
        if points and free is not None:
            yield Chart(
                f"difference-{people.name}",
                f"Against {free.name} on {people.name}",
                "Left of 0 the free measure agrees better with people. An interval that contains 0 "
                "proves no difference.",
                intervals(points, x="difference of rank correlations"),
                ("judge", "free measure", "rows", "difference"),
                tuple(lines),
                "differences",
            )


def _bias_charts(passport: Passport) -> Iterator[Chart]:
    paid = [judge for judge in passport.judges if judge.kind != "free"]
    for judge in (paid or list(passport.judges))[:_MOST_BIASED]:
        people = next(
            (p for p in passport.people if p.name == judge.dimension),
            next((p for p in passport.people if p.name in judge.dimensions), None),
        )
        if people is None:
            continue
        for grouping, groups in judge.dimensions[people.name].groups.items():
            known = [group for group in groups if group.bias.value is not None][:_MOST_GROUPS]
            if len(known) < 2:
                continue
            yield Chart(
                f"bias-{passport.judges.index(judge)}-{grouping}",
                f"{judge.name} by {grouping}",
                f"Its mean verdict on {people.name} minus people's, in points of the scale "
                f"{people.low:g} to {people.high:g}. Right of 0 it is too generous.",
                intervals([_point(g.name, g.bias) for g in known], x="bias"),
                (grouping, "rows", "bias"),
                tuple((g.name, str(g.rows), _figure_text(g.bias, "+")) for g in known),
                "bias",
            )


_KINDS = {"people": "@second", "judge": "@accent", "free": "@good"}


def _colour_kinds(spec: Spec) -> Spec:
    """Colour the lines of a chart by people, judges and free measures."""
    scale = {"domain": [*_KINDS], "range": [*_KINDS.values()]}
    for drawn in spec["layer"]:
        if "color" in drawn["encoding"]:
            drawn["encoding"]["color"] = kind("of", title=None, scale=scale)
    return spec


def _point(name: str, estimate: Estimate) -> dict[str, Any]:
    return whisker(name, estimate.value or 0.0, estimate.low, estimate.high)


def _blocks(passport: Passport) -> Iterator[Block]:
    yield (
        "agreement",
        "Agreement with people",
        "How well each judge ranks the answers as people do.",
        [],
    )
    yield (
        "differences",
        "Would a free measure do?",
        "Each judge against the best free measure, on the same rows.",
        [],
    )
    overall: list[tuple[str, ...]] = [
        (judge.name, name, _figure_text(figures.bias, "+"), figures.mapped or "-")
        for judge in passport.judges
        for name, figures in judge.dimensions.items()
        if figures.bias.value is not None
    ]
    yield (
        "bias",
        "Bias",
        "A judge that is too generous to one system, subject or length ranks systems wrongly.",
        [("Bias over all rows", ("judge", "dimension", "bias", "scale"), overall, range(2, 3))],
    )
    replies: list[tuple[str, ...]] = [
        (
            judge.name,
            "-" if judge.unusable.value is None else f"{judge.unusable.value:.1%}",
            "-" if judge.spread is None or judge.spread.sd is None else f"{judge.spread.sd:.3f}",
            "-" if judge.flips is None or judge.flips.rate is None else f"{judge.flips.rate:.1%}",
            "unknown" if judge.cost is None else f"{judge.cost:.4g}",
        )
        for judge in passport.judges
        if judge.kind == "model"
    ]
    yield (
        "replies",
        "Replies and cost",
        "Unusable replies, what repeats and the order of texts change, and the price.",
        [("Replies and cost", _REPLIES_HEAD, replies, range(1, 5))],
    )
    yield (
        "labels",
        "Labels that are still needed",
        "How many rows people must label so that a gate can rely on the judge's mean, and how many "
        "without the judge.",
        [("Labels that are needed", _LABELS_HEAD, list(_label_lines(passport)), range(2, 6))],
    )


_REPLIES_HEAD = ("judge", "unusable", "spread of repeats", "order decides", "100 rows cost")
_LABELS_HEAD = ("judge", "dimension", "interval ±", "labels", "without the judge", "saved")


def _label_lines(passport: Passport) -> Iterator[tuple[str, ...]]:
    for judge in passport.judges:
        for name, figures in judge.dimensions.items():
            plan = figures.plan
            if plan is None or judge.kind == "free":
                continue
            yield (
                judge.name,
                name,
                f"{plan.margin:.0%} of the scale",
                str(plan.labels),
                str(plan.alone),
                f"{plan.saving:.0%}",
            )


def _figure_text(estimate: Estimate, sign: str = "") -> str:
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:{sign}.3f}"
    known = estimate.low is not None and estimate.high is not None
    return f"{text} ({format_interval(estimate.low, estimate.high)})" if known else text


def _facts(passport: Passport) -> list[tuple[str, str]]:
    labels = sum(people.labels for people in passport.people)
    raters = max((people.raters for people in passport.people), default=0)
    people = count_noun(raters, "person", "people") if raters > 1 else "people not named"
    return [
        ("set", passport.source),
        ("labels", f"{labels:,} by {people}"),
        ("dimensions", ", ".join(figures.name for figures in passport.people)),
        ("judges", str(len(passport.judges))),
        ("date", passport.date[:10] or "unknown"),
    ]


_METHOD = (
    "Agreement is Spearman's rank correlation (1904), with Kendall's tau-b (1945), kappa (Cohen "
    "1960, weighted 1968) where both use the same points, and AUC where people said yes or no.",
    "How well people agree with each other is the correlation of one person with the mean of the "
    "others (leave one out). A judge is compared with single people in the same way.",
    "Intervals are 95 % of a seeded bootstrap that draws whole tasks, not rows: answers to one "
    "question are not independent. A difference uses the same rows and draws for both judges.",
    "“Use it” says yes where the agreement is above chance and not below the best free measure.",
)


_WHOLE_ZERO = re.compile(r"(?<!\d)0\.")
"""The zero before the point of a number below 1."""


def passport_table(passport: Passport, width: int = WIDTH) -> str:
    """A passport as text: per dimension one line for people and one for each judge."""
    head = (
        f"{passport.set}: {count_noun(passport.rows, 'row')} of "
        f"{count_noun(passport.tasks, 'task')} "
        "judged by people; 95 % intervals resample tasks"
    )
    blocks = [head]
    blocks += [_dimension_block(passport, people, width) for people in passport.people]
    blocks.append(_whole_judges(passport, width))
    blocks += [f"note: {note}" for note in passport.notes]
    return "\n\n".join(filter(None, blocks))


def _dimension_block(passport: Passport, people: PeopleFigures, width: int) -> str:
    judges = [judge for judge in passport.judges if people.name in judge.dimensions]
    best = passport.best_free(people.name)
    names = ["one person", "Spearman", "kappa", "AUC", "bias", "minus best free", "gate"]
    lines = [["", "rows", *names]]
    for judge in judges:
        figures = judge.dimensions[people.name]
        versus = (free.spearman for free in figures.versus if best and free.name == best.name)
        lines.append(
            [
                judge.name,
                str(figures.rows),
                _short(Estimate(figures.one_person.value)) if people.twice else "",
                _short(figures.spearman),
                _short(figures.weighted_kappa),
                _short(figures.auc),
                _short(figures.bias, sign=True),
                _short(next(versus, Estimate()), sign=True),
                "counts" if figures.trusted else "does not",
            ]
        )
    shown = [at for at in range(len(lines[0])) if any(line[at] for line in lines[1:])]
    if people.twice:
        numbers = (people.spearman, people.weighted_kappa, people.auc)
        texts = [_short(Estimate(people.spearman.value)), *map(_short, numbers), "", "", ""]
        lines.insert(1, ["people with each other", str(people.twice), *texts])
    title = f"{people.name} ({people.low:g} to {people.high:g})"
    table = text_table([[line[at] for at in shown] for line in lines], right=(1,), width=width)
    return "\n".join([title, *_advice_lines(judges, people.name, best), table])


def _advice_lines(
    judges: Sequence[JudgePassport], dimension: str, best: JudgePassport | None
) -> list[str]:
    """Which judge to use: each judge that is worth it, else the free measure in one sentence."""
    others = [judge for judge in judges if judge.kind != "free"]
    if len(others) == 1 or (best is None and others):
        return [judge.dimensions[dimension].advice for judge in others]
    better = [
        judge.dimensions[dimension].advice
        for judge in others
        if judge.dimensions[dimension].advice.startswith(f"Use {judge.name} ")
    ]
    if better or best is None:
        return better
    if not others:
        return [best.dimensions[dimension].advice]
    return [
        f"Use {best.name} for {dimension}: it is free, and none of the {len(others)} judges is "
        "shown to agree better with people."
    ]


def _whole_judges(passport: Passport, width: int) -> str:
    """Unusable replies, repeats, positions and cost of judges that called a model."""
    judges = [judge for judge in passport.judges if judge.kind == "model"]
    if not judges:
        return ""
    lines = [["judge", "unusable", "spread of repeats", "order decides", "100 rows cost"]]
    lines += [
        [
            judge.name,
            "" if judge.unusable.value is None else f"{judge.unusable.value:.1%}",
            "" if judge.spread is None or judge.spread.sd is None else f"{judge.spread.sd:.3f}",
            "" if judge.flips is None or judge.flips.rate is None else f"{judge.flips.rate:.1%}",
            ("unknown" if judge.cost is None else f"{judge.cost:.4f}"),
        ]
        for judge in judges
    ]
    return text_table(lines, width=width)


def _short(estimate: Estimate, *, sign: bool = False) -> str:
    """A figure with its interval: ``.725 (.648 to .787)``; empty if undefined."""
    if estimate.value is None:
        return ""
    texts = [
        "" if number is None else _WHOLE_ZERO.sub(".", format(number, "+.3f" if sign else ".3f"))
        for number in [estimate.value, estimate.low, estimate.high]
    ]
    return f"{texts[0]} ({texts[1]} to {texts[2]})" if texts[1] else texts[0]
