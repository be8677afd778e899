"""Tests of rules one by one: valid rules, and the rows that each applies to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core import ConfigError, read_yaml, require
from .._seams import TEXT, ArrowTable
from ..declared import Refinement, Rules, Tags
from ._report import RuleFacts

_FIRED = "refinement "
"""Marker fields for one check that show where a refinement applies."""


def usable_rules(rules: Rules, tags: Tags, columns: Sequence[str]) -> Rules:
    """The rules without those whose tags or columns are faulty."""
    known = set(tags.names)
    against = tuple(rule for rule in rules.contradictions if known.issuperset(rule.tags))
    refine = tuple(
        rule
        for rule in rules.refinements
        if all(c.pattern is None or c.field in (TEXT, *columns) for c in rule.conditions)
    )
    return replace(rules, contradictions=against, refinements=refine)


def mark_rules(rules: Rules) -> Rules:
    """The rules, each also setting a marker field that shows where it applies."""
    marked = [
        replace(rule, values=(*rule.values, (f"{_FIRED}{at}", ("yes",))))
        for at, rule in enumerate(rules.refinements)
    ]
    return replace(rules, refinements=tuple(marked))


def is_mark(name: str) -> bool:
    """True if :func:`mark_rules` sets the field."""
    return name.startswith(_FIRED)


def refinement_facts(rules: Rules, records: ArrowTable) -> list[RuleFacts]:
    """Rows for which each rule sets a field that no rule before it has set."""
    compute = require("pyarrow.compute", "records", "checking records")
    before: dict[str, NDArray[np.bool_]] = {}
    facts = []
    for rule in rules.refinements:
        *values, (mark, _) = rule.values
        holds = np.asarray(compute.is_valid(records.column(mark)), np.bool_)
        acts = np.zeros(len(holds), np.bool_)
        for name, _ in values:
            done = before.get(name, np.zeros(len(holds), np.bool_))
            acts |= holds & ~done
            before[name] = done | holds
        settings = ", ".join(f"{name} = {', '.join(texts)}" for name, texts in values)
        facts.append(RuleFacts("refinement", settings, rule.place, int(acts.sum())))
    return facts


def contradiction_facts(rules: Rules, counts: Sequence[int], folder: Path) -> list[RuleFacts]:
    """Rows that each contradiction applies to, and where it is declared."""
    shown = f"{folder.name}/rules.yaml"
    try:
        placed = read_yaml(folder / "rules.yaml", shown)
        items = placed.value["contradictions"] or []
        places = {
            item.get("name"): placed.where("contradictions", str(at))
            for at, item in enumerate(items)
            if isinstance(item, dict)
        }
    except (ConfigError, KeyError, TypeError):
        places = {}
    return [
        RuleFacts("contradiction", rule.name, places.get(rule.name, shown), count)
        for rule, count in zip(rules.contradictions, counts, strict=True)
    ]


def is_about_rule(rule: Refinement, where: str | None) -> bool:
    """True if an error is about a place in this rule."""
    places = {c.place for c in rule.conditions}
    places |= {c.pattern.where for c in rule.conditions if c.pattern is not None}
    return where is not None and any(place and place in where for place in places)
