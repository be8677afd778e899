"""Gates apply rules to summaries and a comparison; untrusted numbers do not pass."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..core import MeasureError, count_noun, option
from ._compare import Comparison, Comparisons
from ._definition import MeasureScale
from ._measure import Measure, parse_measure, set_scale
from ._selection import least_rows
from ._statistics import Summary

GateState: TypeAlias = Literal["passed", "failed", "untrusted"]

_RULE = re.compile(r"(?P<measure>.+?)\s*(?P<sign><=|>=)\s*(?P<bound>.+)")
_BASELINE = re.compile(r"baseline(?:\s*(?P<sign>[+-])\s*(?P<margin>\d*\.?\d+))?", re.IGNORECASE)
_FEWEST = 6
"""With fewer units no sign flip has p below 0.05."""

_OVER = 9  # digits in which a mean is compared to its bound


@dataclass(frozen=True, slots=True)
class GateRule:
    """One rule: a bound for the mean, or at most a margin worse than the baseline.

    ``str(rule)`` parses back. With ``margin``, ``bound`` is 0 and not used.
    """

    measure: Measure
    upward: bool
    bound: float = 0.0
    margin: float | None = None

    def __str__(self) -> str:
        """The text that parses back."""
        sign = ">=" if self.upward else "<="
        if self.margin is None:
            return f"{self.measure}{sign}{self.bound:g}"
        shift = f"{'-' if self.upward else '+'}{self.margin:g}" if self.margin else ""
        return f"{self.measure}{sign}baseline{shift}"


@dataclass(frozen=True, slots=True)
class GateOptions:
    """Requirements of a gate on the numbers."""

    floor: float = option(0.95, "Least share of the rows with gold that must have a score.", ge=0)
    sure: bool = option(False, "The whole 95 % interval must meet a threshold, not only the mean.")
    calibrated: bool = option(
        False,
        "A judged measure counts only if this judge was checked against people and agreed with "
        "them above chance.",
    )
    least: int = option(
        10,
        "Fewest scored rows, or for a rule against a baseline rows or clusters, that a gate "
        "trusts.",
        ge=1,
    )


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """The part of a judge's passport that a gate reads.

    Attributes:
        trusted: The agreement is above chance, and not below the best free measure.
        doubt: Why the judge is not trusted; empty if it is.
        why_not: Why nothing is known of the judge; empty if it has a passport.
        hint: What to do about it.
        passport: The passport in one line; empty if it has none.
    """

    trusted: bool = False
    doubt: str = ""
    why_not: str = ""
    hint: str = ""
    passport: str = ""


@dataclass(frozen=True, slots=True)
class GateCheck:
    """The outcome of one rule with its reason; ``hint`` says what to do, if known.

    ``warning`` is set where the rule is about a judged measure, and its judge was never checked
    against people or did not agree with them above chance.
    """

    rule: str
    measure: str
    state: GateState
    reason: str
    value: float | None = None
    hint: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """All rules: ``failed`` if one failed, else ``untrusted`` if one is, else ``passed``.

    A threshold fails if the mean, or with ``sure`` an end of its interval, misses it; below the
    coverage floor only if it is missed for any values of the rows without a score, else it is
    ``untrusted``. A rule against a baseline fails if the loss is, or may be, beyond the margin:
    *not worse* must be proven. A rule that is met is ``untrusted`` if it would fail with the rows
    without a score at the worst end of the scale. Rules use the mean in which an abstention on a
    row with gold has the worst value; the coverage floor counts such a row as one without a score.
    ``notes`` are warnings about the runs.
    """

    state: GateState
    checks: tuple[GateCheck, ...]
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the rules, each once, then those about the runs."""
        return tuple(
            dict.fromkeys((*(check.warning for check in self.checks if check.warning), *self.notes))
        )


def parse_rule(text: str, scales: Mapping[str, MeasureScale | None] | None = None) -> GateRule:
    """The rule written as a text: ``nDCG@10>=0.7`` or ``Faithfulness>=baseline-0.2``.

    Args:
        text: Measure, sign and bound.
        scales: Text of a measure -> its scale, for custom rubrics.

    Raises:
        MeasureError: Not of that form; the bound or margin is always or never met on the measure's
            scale; the sign is against the measure's direction.
    """
    text = text.strip()
    match = _RULE.fullmatch(text)
    if match is None:
        raise MeasureError(
            f"cannot read {text!r} as a rule",
            hint="write Measure>=number or Measure>=baseline-margin, for example nDCG@10>=0.7",
        )
    measure, upward = parse_measure(match["measure"]), match["sign"] == ">="
    measure = set_scale(measure, (scales or {}).get(str(measure)))
    if upward != measure.definition.higher_is_better and not _has_open_direction(measure):
        raise MeasureError(
            f"{text!r} would pass when {measure} gets worse",
            hint=f"for {measure} {'higher' if not upward else 'lower'} is better: "
            f"write {'<=' if upward else '>='}",
        )
    to_baseline = _BASELINE.fullmatch(match["bound"].strip())
    low, high = measure.definition.low, measure.definition.high
    ends = f"{measure} goes from {low:g}" + ("" if high is None else f" to {high:g}")
    if to_baseline is not None:
        margin = float(to_baseline["margin"] or 0)
        if margin and (to_baseline["sign"] == "-") != upward:
            raise MeasureError(
                f"{text!r} requires more than the baseline",
                hint=f"write {measure}{match['sign']}baseline{'-' if upward else '+'}{margin:g}; "
                "use `compare` to test whether it is better",
            )
        if high is not None and margin >= high - low:
            raise MeasureError(
                f"every run meets {text!r}", hint=f"{ends}: no loss is beyond {high - low:g}"
            )
        return GateRule(measure, upward, margin=margin)
    return GateRule(measure, upward, _read_bound(measure, upward, text, match["bound"], ends))


def _read_bound(measure: Measure, upward: bool, text: str, written: str, ends: str) -> float:
    """The bound of a rule; refuses one that every run or no run meets."""
    low, high = measure.definition.low, measure.definition.high
    try:
        bound = float(written)
    except ValueError as error:
        raise MeasureError(
            f"{written!r} in {text!r} is neither a number nor a baseline",
            hint="write Measure>=number or Measure>=baseline-margin",
        ) from error
    if math.isinf(bound):
        raise MeasureError(f"the bound of {text!r} is not a number", hint=ends)
    # The usual reason for a bound that every run or no run meets is a forgotten scale.
    if measure.known_scale is not None or math.isnan(bound):
        if not low <= bound <= (bound if high is None else high):
            raise MeasureError(f"the bound of {text!r} is outside the scale", hint=ends)
        if bound == (low if upward else high):
            raise MeasureError(f"every run meets {text!r}", hint=ends)
    return bound


def _has_open_direction(measure: Measure) -> bool:
    """True for a custom measure whose scale is not known here, as in a file of scores."""
    return measure.definition.kind == "custom" and measure.known_scale is None


def gate(
    summaries: Sequence[Summary],
    rules: Iterable[str | GateRule],
    options: GateOptions | None = None,
    *,
    against: Comparisons | None = None,
    checked: Mapping[str, JudgeCheck] | None = None,
) -> GateOutcome:
    """Apply rules to summaries; untrusted numbers never pass.

    Args:
        summaries: Summaries of the run at the gate.
        rules: Texts or rules; see :func:`parse_rule`.
        options: Coverage floor and strictness of thresholds.
        against: The run (b) compared with its baseline (a), for rules against a baseline.
        checked: Text of a judged measure -> what people found of its judge. Of one that is not
            among them nothing is known: where the options ask for people it is ``untrusted``, else
            its rule has a warning.

    Raises:
        MeasureError: No rule, or a rule that cannot be read.
    """
    chosen = options or GateOptions()
    scales = {summary.measure: summary.scale for summary in summaries}
    parsed = [parse_rule(rule, scales) if isinstance(rule, str) else rule for rule in rules]
    if not parsed:
        raise MeasureError("the gate has no rules", hint="for example nDCG@10>=0.7")
    by_name = {summary.measure: summary for summary in summaries}
    checks = []
    for rule in parsed:
        known: JudgeCheck | None = None
        if rule.measure.definition.kind == "judged":
            known = (checked or {}).get(str(rule.measure), _UNCHECKED)
        doubt = "" if known is None or known.trusted else known.why_not or known.doubt
        check = GateCheck(str(rule), str(rule.measure), "untrusted", doubt)
        if doubt and known is not None and chosen.calibrated:
            check = replace(check, hint=known.hint)
        elif rule.margin is None:
            check = _threshold_check(check, rule, by_name, chosen)
        else:
            check = _baseline_check(check, rule, against, chosen)
        if doubt and not chosen.calibrated:
            warning = f"{rule.measure}: {doubt} (with --calibrated the rule would not count)"
            check = replace(check, warning=warning)
        checks.append(check)
    notes = (
        f"which values of {rule.measure} are better is not known here: the rule was applied as "
        f"written, so that {'higher' if rule.upward else 'lower'} values pass"
        for rule in parsed
        if _has_open_direction(rule.measure)
    )
    order: tuple[GateState, ...] = ("failed", "untrusted", "passed")
    state = min((check.state for check in checks), key=order.index)
    return GateOutcome(state, tuple(checks), tuple(dict.fromkeys(notes)))


_UNCHECKED = JudgeCheck(why_not="its judge was never checked against people")


def _threshold_check(
    check: GateCheck, rule: GateRule, summaries: Mapping[str, Summary], options: GateOptions
) -> GateCheck:
    summary = summaries.get(str(rule.measure))
    if summary is None:
        measured = ", ".join(summaries) or "none"
        reason = f"the run did not measure {rule.measure}; it has {measured}"
        return replace(check, reason=reason)
    if summary.mean is None:
        return replace(check, reason="no row has a score")
    check = replace(check, value=summary.mean)
    if summary.coverage < options.floor:
        # The bound is missed even with every missing row at its best, so it certainly fails.
        best = _best_mean(summary)
        if best is not None and not _meets_bound(best, rule):
            reason = f"at best {best:.4f} with all missing rows at their best"
            reason = f"mean {best:.4f}" if summary.accounted >= 1 else reason
            return replace(check, state="failed", reason=reason + _abstention_reason(summary))
        lost = ", ".join(f"{state} {count}" for state, count in summary.lost.items())
        reason = f"coverage {summary.coverage:.1%} is below the floor, {options.floor:.1%} ({lost})"
        return replace(check, reason=reason)
    if summary.n < options.least:
        reason = f"too few rows have a score: {summary.n}; at least {options.least} are required"
        none = f" ({summary.no_gold} have no gold for it)" if summary.no_gold else ""
        return replace(check, reason=reason + none)
    check = _mean_check(check, rule, summary, options)
    return _reversible_check(check, rule, summary, options)


def _best_mean(summary: Summary) -> float | None:
    mean, scale, share = summary.deciding[0], summary.scale, summary.accounted
    if mean is None or scale is None or not summary.missed:
        return summary.best
    best = scale.high if scale.higher_is_better else scale.low
    return None if best is None else share * mean + (1 - share) * best


def _abstention_reason(summary: Summary) -> str:
    """The rule by which abstentions are counted; empty if there are none."""
    if not summary.missed or summary.mean_with_abstained is None or summary.scale is None:
        return ""
    answered = "no row" if summary.mean is None else f"{summary.mean:.4f} on the {summary.n}"
    rows = count_noun(summary.missed, "abstention counts", "abstentions count")
    return f"; {rows} as {summary.scale.worst:g}: {answered} answered"


def _mean_check(
    check: GateCheck, rule: GateRule, summary: Summary, options: GateOptions
) -> GateCheck:
    """Checks a mean, or with ``sure`` its interval, against a threshold."""
    value, low, high = summary.deciding
    mean, end = value or 0.0, low if rule.upward else high
    rows = summary.n + (summary.missed if summary.mean_with_abstained is not None else 0)
    reason = f"mean {mean:.4f} on {count_noun(rows, 'row')}"
    if low is not None and high is not None:
        reason += f" ({low:.4f} to {high:.4f})"
    reason += _abstention_reason(summary)
    if summary.no_gold:
        reason += f", {summary.no_gold} without gold left out"
    state: GateState = "passed" if _meets_bound(mean, rule) else "failed"
    if options.sure and state == "passed":
        if end is None:
            state, reason = "untrusted", f"{reason}, without an interval"
        elif not _meets_bound(end, rule):
            side = "below" if rule.upward else "above"
            state, reason = "failed", f"{reason} reaches {side} {rule.bound:g}"
    return replace(check, state=state, reason=reason, value=mean)


def _reversible_check(
    check: GateCheck, rule: GateRule, summary: Summary, options: GateOptions
) -> GateCheck:
    """The check; untrusted if rows without a score could reverse a pass."""
    lost = sum(summary.lost.values())
    (mean, low, high), share = summary.deciding, summary.accounted
    if summary.mean_with_abstained is not None:
        lost -= summary.missed
    if check.state != "passed" or not lost:
        return check
    consequence = "on an unbounded scale they could reverse it"
    if summary.worst is not None and mean is not None:
        end = (low if rule.upward else high) if options.sure else mean
        least = share * (end or 0.0) + summary.worst - share * mean
        if _meets_bound(least, rule):
            return check
        consequence = f"at worst it would be {least:.4f}"
    return replace(
        check, state="untrusted", reason=f"{check.reason}; {_lost_rows_text(lost)}: {consequence}"
    )


def _lost_rows_text(rows: int) -> str:
    return f"{count_noun(rows, 'row lacks', 'rows lack')} a score"


def _baseline_check(
    check: GateCheck, rule: GateRule, against: Comparisons | None, options: GateOptions
) -> GateCheck:
    """Non-inferiority: the whole 95 % interval of the difference must be within the margin."""
    if against is None:
        return replace(check, reason="no baseline was given to compare with")
    comparison = next((c for c in against.measures if c.measure == str(rule.measure)), None)
    if comparison is None or comparison.deciding.difference is None:
        return replace(check, reason="no row has a score in both runs")
    coverage, plain, comparison = comparison.coverage, comparison.difference, comparison.deciding
    due = max(_FEWEST, options.least)
    check = replace(check, value=comparison.difference)
    if coverage < options.floor:
        reason = (
            f"only {coverage:.1%} of the rows are scored in both runs; at least "
            f"{options.floor:.1%} are required"
        )
        return replace(check, reason=reason, value=plain)
    if comparison.incomparable:
        return replace(check, reason=comparison.incomparable)
    if comparison.units < due:
        units = count_noun(comparison.units, "row")
        reason = f"{units} or clusters prove nothing; at least {due} are required"
        return replace(check, reason=reason)
    if comparison.furthest is None:
        reason = "all differences are equal, which bounds no loss on an unbounded scale"
        return replace(check, reason=reason)
    low, high = comparison.furthest
    margin = rule.margin or 0.0
    loss, certain = (-low, -high) if rule.upward else (high, low)
    reason = f"difference {comparison.difference:+.4f} ({low:+.4f} to {high:+.4f})"
    if round(loss, _OVER) > margin:
        position = "is beyond" if certain > margin else "may be beyond"
        hint = _rows_hint(margin, comparison) if certain <= margin else ""
        reason += f": the loss {position} {margin:g}"
        return replace(check, state="failed", reason=reason, hint=hint)
    consequence = _explain_reversed_loss(rule, margin, comparison, loss)
    if consequence:
        reason += f"; {_lost_rows_text(comparison.lost)} in one of the two: {consequence}"
    return replace(check, state="untrusted" if consequence else "passed", reason=reason)


def _explain_reversed_loss(
    rule: GateRule, margin: float, comparison: Comparison, loss: float
) -> str:
    """The way in which rows without a score could bring a loss beyond its margin; empty if they
    cannot.
    """
    worst = comparison.lowest if rule.upward else comparison.highest
    if worst is None:
        return "on an unbounded scale they could reverse it" if comparison.lost else ""
    sign = -1 if rule.upward else 1
    share = comparison.n / (comparison.n + comparison.lost)
    most = share * loss + sign * (worst - share * (comparison.difference or 0.0))
    beyond = comparison.lost and round(most, _OVER) > margin
    return f"at worst it loses {most:.4f}" if beyond else ""


def _rows_hint(margin: float, comparison: Comparison) -> str:
    """Advice if this number of rows cannot prove a margin, whatever their scores."""
    if not margin:
        return "give a margin, as in baseline-0.02: without one only a gain can pass"
    width = None if comparison.scale is None else comparison.scale.width
    due = 0 if width is None else least_rows(margin / width)
    if comparison.units >= due:
        return ""
    kind = "rows" if comparison.clusters is None else "clusters"
    return (
        f"use more questions: even without any difference it takes {due} {kind} to show "
        f"that the loss is within {margin:g}; there are {comparison.units}"
    )


def _meets_bound(value: float, rule: GateRule) -> bool:
    value = round(value, _OVER)
    return value >= rule.bound if rule.upward else value <= rule.bound
