"""A passport as one HTML file and as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ..core import count_noun
from ..experiment import JudgePassport, Passport, PeopleFigures
from ..measure import Estimate
from ._charts import Spec, intervals, kind, whisker
from ._headline import Headline
from ._page import PageSection, write_page
from ._text import WIDTH, Cells, ResultBlock, drop_empty_columns, print_result

_PEOPLE = "people with each other"
_MOST_BIASED = 2
"""Judges whose bias is drawn."""

_MOST_GROUPS = 40

_SECTIONS = {
    "agreement": ("Agreement with people", "How well each judge ranks the answers as people do."),
    "differences": (
        "Would a free measure do?",
        "Each judge against the best free measure, on the same rows.",
    ),
    "bias": (
        "Bias",
        "A judge that is too generous to one system or subject ranks systems wrongly.",
    ),
    "replies": (
        "Replies and cost",
        "Unusable replies, what repeats and the order of texts change, and the price.",
    ),
    "labels": (
        "Labels that are still needed",
        "How many rows people must label so that a gate can rely on the judge's mean, and how many "
        "without the judge.",
    ),
}
"""Sections of the page: heading and note."""


def passport_html(passport: Passport) -> str:
    """Return the page of a passport as one HTML file that loads nothing."""
    plans = tuple(
        (
            *(judge.name, name, f"{plan.margin:.0%} of the scale"),
            *(str(plan.labels), str(plan.alone), f"{plan.saving:.0%}"),
        )
        for judge in passport.judges
        for name, figures in judge.dimensions.items()
        if (plan := figures.plan) is not None and judge.kind != "free"
    )
    head = ("judge", "dimension", "interval ±", "labels", "without the judge", "saved")
    blocks = [
        *(block for people in passport.people for block in _agreement_blocks(passport, people)),
        *_difference_blocks(passport),
        *_bias_blocks(passport),
        _replies_block(passport),
        ResultBlock("labels", "", "", head, plans, section="labels"),
    ]
    labels = sum(people.labels for people in passport.people)
    raters = max((people.raters for people in passport.people), default=0)
    people = count_noun(raters, "person", "people") if raters > 1 else "people not named"
    found = f"Seed {passport.seed}; fingerprint of rows and labels "
    method = (*_METHOD, f"{found}{passport.fingerprint or 'unknown'}.", *passport.notes)
    sections = [
        PageSection(name, title, note, [b for b in blocks if b.section == name and b.rows])
        for name, (title, note) in _SECTIONS.items()
    ]
    return write_page(
        PageSection("top", f"Passport · {_describe_rows(passport)}"),
        passport_verdict(passport),
        [
            *(section for section in sections if section.blocks),
            PageSection("method", "Data and method", sentences=method),
        ],
        facts={
            "set": passport.source,
            "labels": f"{labels:,} by {people}",
            "dimensions": ", ".join(figures.name for figures in passport.people),
            "judges": str(len(passport.judges)),
            "date": passport.date[:10] or "unknown",
        },
    )


def _describe_rows(passport: Passport) -> str:
    rows, tasks = count_noun(passport.rows, "row"), count_noun(passport.tasks, "task")
    return f"{passport.set}: {rows} of {tasks} judged by people"


def passport_table(passport: Passport, width: int = WIDTH) -> str:
    """A passport as text: per dimension one line for people and one for each judge."""
    blocks = [b for people in passport.people for b in _agreement_blocks(passport, people)]
    head = f"{_describe_rows(passport)}; 95 % intervals resample tasks"
    blocks.append(_replies_block(passport))
    return print_result([head], blocks, notes=passport.notes, width=width)


def passport_verdict(passport: Passport) -> Headline:
    """Return the verdict: whom to trust for what the set was made for, then the other dimensions.

    The judge is the first model or recorded one, else the best free measure; the dimension that
    which the judge is about, else the first.
    """
    texts = []
    for people in passport.people:
        judges = [judge for judge in passport.judges if people.name in judge.dimensions]
        paid = [judge for judge in judges if judge.kind != "free"] or judges
        ranked = [(j.dimension == people.name, _rank_value(j, people.name)) for j in paid]
        if paid:
            judge = paid[ranked.index(max(ranked))]
            advice = judge.dimensions[people.name].advice
            state = _state_of(passport, judge, people.name)
            texts.append((judge.dimension != people.name, (advice, state)))
    if not texts:
        return Headline("No judge and no person scored the same rows.", "open")
    (_, (text, state)), *rest = sorted(texts, key=lambda pair: pair[0])
    return Headline(text, state, tuple(other for _, (other, _) in rest))


def _rank_value(judge: JudgePassport, dimension: str) -> float:
    value = judge.dimensions[dimension].spearman.value
    return -2 if value is None else value


def _state_of(passport: Passport, judge: JudgePassport, dimension: str) -> str:
    """``better`` if a judge is worth using, ``worse`` if not, ``open`` if a free measure may do."""
    figures, free = judge.dimensions[dimension], passport.best_free(dimension)
    if not figures.trusted:
        return "worse"
    against = [f.spearman for f in figures.versus if free and f.name == free.name]
    doubted = any(each.value is not None and (each.low or 0.0) <= 0 for each in against)
    return "open" if doubted else "better"


_AGREEMENT_HEAD = (
    *("", "rows", "one person", "Spearman", "Kendall", "kappa", "weighted kappa", "AUC", "bias"),
    *("minus best free", "gate"),
)


def _agreement_blocks(passport: Passport, people: PeopleFigures) -> Iterator[ResultBlock]:
    judges = [judge for judge in passport.judges if people.name in judge.dimensions]
    best, single = passport.best_free(people.name), people.twice > 0
    rows: list[Cells] = []
    points = []
    for judge, own in ((judge, judge.dimensions[people.name]) for judge in judges):
        versus = (free.spearman for free in own.versus if best and free.name == best.name)
        figures = (own.spearman, own.kendall, own.kappa, own.weighted_kappa, own.auc)
        rows.append(
            (
                *(judge.name, str(own.rows)),
                _figure_text(Estimate(own.one_person.value)) if single else "",
                *map(_figure_text, figures),
                _figure_text(own.bias, "+"),
                _figure_text(next(versus, Estimate()), "+"),
                "counts" if own.trusted else "does not",
            )
        )
        estimate = own.one_person if single else own.spearman
        if estimate.value is not None:
            of = "free" if judge.kind == "free" else "judge"
            points.append({**_point(judge.name, estimate), "of": of})
    head, cells = drop_empty_columns(_AGREEMENT_HEAD, rows)
    if single:
        figures = (people.spearman, people.kendall, people.kappa, people.weighted_kappa, people.auc)
        texts = (_figure_text(Estimate(people.spearman.value)), *map(_figure_text, figures))
        line = dict(zip(_AGREEMENT_HEAD[2:8], texts, strict=True))
        own_cells = (_PEOPLE, str(people.twice), *(line.get(name, "") for name in head[2:]))
        cells = (own_cells, *cells)
        if people.spearman.value is not None:
            points.insert(0, {**_point(_PEOPLE, people.spearman), "of": "people"})
    ceiling = (
        " Each is held against one person; the first line is how well people agree with each other."
        if single
        else ""
    )
    yield ResultBlock(
        f"agreement-{people.name}",
        f"{people.name} ({people.low:g} to {people.high:g})",
        f"Further right is better; 0 is chance, 1 perfect.{ceiling}",
        head,
        cells,
        _colour_kinds(intervals(points, x="rank correlation")) if points else None,
        "agreement",
        tuple(
            judge.dimensions[people.name].advice
            for judge in judges
            if judge.kind != "free" or judge is best
        ),
    )


def _difference_blocks(passport: Passport) -> Iterator[ResultBlock]:
    for people in passport.people:
        free = passport.best_free(people.name)
        versus = [
            (judge.name, of)
            for judge in passport.judges
            if free and judge.kind != "free" and people.name in judge.dimensions
            for of in judge.dimensions[people.name].versus
            if of.spearman.value is not None
        ]
        points = [_point(name, of.spearman) for name, of in versus if free and of.name == free.name]
        if points and free is not None:
            yield ResultBlock(
                f"difference-{people.name}",
                f"Against {free.name} on {people.name}",
                "Left of 0 the free measure agrees better with people. An interval that contains 0 "
                "proves no difference.",
                ("judge", "free measure", "rows", "difference"),
                tuple((n, o.name, str(o.rows), _figure_text(o.spearman, "+")) for n, o in versus),
                intervals(points, x="difference of rank correlations"),
                "differences",
            )


def _bias_blocks(passport: Passport) -> Iterator[ResultBlock]:
    paid = [judge for judge in passport.judges if judge.kind != "free"]
    dimensions = {people.name: people for people in passport.people}
    for judge in (paid or list(passport.judges))[:_MOST_BIASED]:
        named = [name for name in (judge.dimension, *dimensions) if name in judge.dimensions]
        for grouping, groups in judge.dimensions[named[0]].groups.items() if named else ():
            people = dimensions[named[0]]
            known = [group for group in groups if group.bias.value is not None][:_MOST_GROUPS]
            if len(known) > 1:
                yield ResultBlock(
                    f"bias-{passport.judges.index(judge)}-{grouping}",
                    f"{judge.name} by {grouping}",
                    f"Its mean verdict on {people.name} minus people's, in points of the scale "
                    f"{people.low:g} to {people.high:g}. Right of 0 it is too generous.",
                    (grouping, "rows", "bias"),
                    tuple((g.name, str(g.rows), _figure_text(g.bias, "+")) for g in known),
                    intervals([_point(g.name, g.bias) for g in known], x="bias"),
                    "bias",
                )
    rows = tuple(
        (judge.name, name, _figure_text(figures.bias, "+"), figures.mapped or "-")
        for judge in passport.judges
        for name, figures in judge.dimensions.items()
        if figures.bias.value is not None
    )
    head = ("judge", "dimension", "bias", "scale")
    yield ResultBlock("bias", "Bias over all rows", "", head, rows, section="bias")


_KINDS = {"people": "@second", "judge": "@accent", "free": "@good"}


def _colour_kinds(spec: Spec) -> Spec:
    scale = {"domain": [*_KINDS], "range": [*_KINDS.values()]}
    for drawn in spec["layer"]:
        if "color" in drawn["encoding"]:
            drawn["encoding"]["color"] = kind("of", title=None, scale=scale)
    return spec


def _point(name: str, estimate: Estimate) -> dict[str, object]:
    return whisker(name, estimate.value or 0.0, estimate.low, estimate.high)


def _replies_block(passport: Passport) -> ResultBlock:
    rows = tuple(
        (
            judge.name,
            "-" if judge.unusable.value is None else f"{judge.unusable.value:.1%}",
            "-" if judge.spread is None or judge.spread.sd is None else f"{judge.spread.sd:.3f}",
            "-" if judge.flips is None or judge.flips.rate is None else f"{judge.flips.rate:.1%}",
            "unknown" if judge.cost is None else f"{judge.cost:.4g}",
        )
        for judge in passport.judges
        if judge.kind == "model"
    )
    head = ("judge", "unusable", "spread of repeats", "order decides", "100 rows cost")
    return ResultBlock("replies", "", "", head, rows, section="replies")


def _figure_text(estimate: Estimate, sign: str = "") -> str:
    """A figure with its interval: ``0.725 (0.648 to 0.787)``; a dash if undefined."""
    if estimate.value is None:
        return "-"
    known = estimate.low is not None and estimate.high is not None
    ends = f" ({estimate.low:{sign}.3f} to {estimate.high:{sign}.3f})" if known else ""
    return f"{estimate.value:{sign}.3f}{ends}"


_METHOD = (
    "Agreement is Spearman's rank correlation (1904), with Kendall's tau-b (1945), kappa (Cohen "
    "1960, weighted 1968) where both use the same points, and AUC where people said yes or no.",
    "How well people agree with each other is the correlation of one person with the mean of the "
    "others (leave one out). A judge is compared with single people in the same way.",
    "Intervals are 95 % of a seeded bootstrap that draws whole tasks, not rows: answers to one "
    "question are not independent. A difference uses the same rows and draws for both judges.",
    "A judge counts in gates where its agreement is above chance and not below the best free "
    "measure's.",
)
