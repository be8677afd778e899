"""The passport of judges as a table for the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core import count_noun
from ..measure import Estimate
from ..passport import JudgePassport, Passport, PeopleFigures
from ._text import WIDTH, text_table

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
        one_person = _short(Estimate(people.spearman.value))
        texts = [one_person, *map(_short, numbers), "", "", ""]
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
            _cost_text(judge),
        ]
        for judge in judges
    ]
    return text_table(lines, width=width)


def _cost_text(judge: JudgePassport) -> str:
    return "unknown" if judge.cost is None else f"{judge.cost:.4f}"


def _short(estimate: Estimate, *, sign: bool = False) -> str:
    """A figure with its interval: ``.725 (.648 to .787)``; empty if undefined."""
    if estimate.value is None:
        return ""
    numbers = [estimate.value, estimate.low, estimate.high]
    texts = [
        "" if number is None else _WHOLE_ZERO.sub(".", format(number, "+.3f" if sign else ".3f"))
        for number in numbers
    ]
    return f"{texts[0]} ({texts[1]} to {texts[2]})" if texts[1] else texts[0]
