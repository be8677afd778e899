"""Fitting a ranker: boosted regression trees for rankings (LambdaMART, Burges 2010)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import TestsetError, require
from ..retrieve import FEATURES, Trees

Table = NDArray[np.float64]
Grades = NDArray[np.int64]

LEAST_QUESTIONS = 30
FOLDS = 5
DEPTH = 10
SETTINGS: Mapping[str, Any] = {
    "trees": 100,
    "learning_rate": 0.05,
    "num_leaves": 7,
    "min_data_in_leaf": 50,
    "lambda_l2": 1.0,
}
"""Tried on development collections: docs/decisions/0021-ranker.md."""

_RISING = {"search", "search_rank", "keyword", "keyword_rank", "keyword_held", "dense"}
_RISING |= {"dense_rank", "both", "codes", "title", "text", "beginning", "together", "support"}
"""Features of which more never lowers a score."""


@dataclass(frozen=True, slots=True)
class RankedQuestion:
    """The hits of one training question.

    Attributes:
        table: Features, shape (hits, features).
        grades: Grade of each hit, 0 for one that does not answer, -1 for one to leave out: a
            further chunk of a document that is gold as a whole.
        cluster: Questions of one cluster share gold, and are in the same fold.
    """

    table: Table
    grades: Grades
    cluster: str


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """What a feature does in a ranker.

    Attributes:
        name: Its name.
        gain: Share of the trees' gain, 0 to 1.
        direction: ``up`` if more of it raises scores, ``down``, or empty if it has no effect.
        without: MRR@10 by cross-validation when its values are shuffled among the hits of each
            held-out question.
    """

    name: str
    gain: float
    direction: str
    without: float


@dataclass(frozen=True, slots=True)
class RankerFit:
    """Fitted trees and what cross-validation says of them.

    Attributes:
        trees: Trees of all training questions.
        before: MRR@10 of the search's own order.
        after: The same by cross-validation: each question by trees that have not seen it.
        questions: Training questions.
        effects: What each feature does, the one with the greatest gain first.
    """

    trees: Trees
    before: float
    after: float
    questions: int
    effects: tuple[FeatureEffect, ...]


def fit_ranker(questions: Sequence[RankedQuestion], seed: int = 0) -> RankerFit:
    """Trees for the questions' hits, with cross-validation.

    Features of which more is better by their meaning (a score, a share of words) can only raise a
    score; length and place of a chunk can do both.

    Raises:
        MissingExtraError: LightGBM is not installed.
        TestsetError: Too few questions have gold among their hits and a hit beside it, or all of
            them share their gold.
    """
    useful = [one for one in questions if _trains(one)]
    if len(useful) < LEAST_QUESTIONS:
        raise TestsetError(
            f"{len(useful)} training questions have gold among the hits of the search; a ranker "
            f"needs {LEAST_QUESTIONS}",
            hint="add rows with reference_ids or spans, or make some: ragwright synth",
        )
    require("lightgbm", "train", "tuning a ranker")
    names = sorted({one.cluster for one in questions})
    draw = np.random.default_rng(seed)
    fold_of = dict(zip(names, (draw.permutation(len(names)) % FOLDS).tolist(), strict=True))
    held: list[tuple[RankedQuestion, Trees]] = []
    for fold in range(FOLDS):
        rest = [one for one in useful if fold_of[one.cluster] != fold]
        if not rest:
            raise TestsetError(
                "all training questions share their gold: none is left to check a ranker on",
                hint="add questions that other passages or documents answer",
            )
        trees, _ = _boosted(rest, seed)
        held += [(one, trees) for one in questions if fold_of[one.cluster] == fold]
    before = float(np.mean([reciprocal(one.grades) for one in questions]))
    after = float(np.mean([_held_out(one, trees) for one, trees in held]))
    trees, gains = _boosted(useful, seed)
    effects = [
        FeatureEffect(
            name,
            float(gains[at] / max(float(gains.sum()), 1e-12)),
            _direction(trees, useful, at) if gains[at] else "",
            _shuffled(held, at, seed) if gains[at] else after,
        )
        for at, name in enumerate(FEATURES)
    ]
    ordered = tuple(sorted(effects, key=lambda one: (-one.gain, one.name)))
    return RankerFit(trees, before, after, len(questions), ordered)


def reciprocal(grades: Grades) -> float:
    """1 / rank of the first hit that answers, of the first ten; else 0."""
    found = np.flatnonzero(grades[:DEPTH] > 0)
    return 1.0 / (int(found[0]) + 1) if len(found) else 0.0


def _trains(one: RankedQuestion) -> bool:
    return bool((one.grades > 0).any() and (one.grades == 0).any())


def _held_out(one: RankedQuestion, trees: Trees) -> float:
    if not len(one.grades):
        return 0.0
    order = np.argsort(-np.round(trees.scores(one.table), 6), kind="stable")
    return reciprocal(one.grades[order])


def _shuffled(held: Sequence[tuple[RankedQuestion, Trees]], at: int, seed: int) -> float:
    draw = np.random.default_rng(seed)
    total = 0.0
    for one, trees in held:
        table = one.table.copy()
        draw.shuffle(table[:, at])
        total += _held_out(RankedQuestion(table, one.grades, one.cluster), trees)
    return total / len(held)


def _direction(trees: Trees, questions: Sequence[RankedQuestion], at: int) -> str:
    """Whether the scores of a sample of hits follow a feature or go against it."""
    table = np.concatenate([one.table for one in questions[:50]])
    shares, values = trees.shares(table)[:, at], table[:, at]
    if shares.std() < 1e-12 or values.std() < 1e-12:
        return ""
    return "up" if float(np.corrcoef(values, shares)[0, 1]) > 0 else "down"


def _boosted(questions: Sequence[RankedQuestion], seed: int) -> tuple[Trees, Table]:
    """Trees, and the gain of each feature."""
    import lightgbm

    kept = [one.grades >= 0 for one in questions]
    table = np.concatenate([one.table[keep] for one, keep in zip(questions, kept, strict=True)])
    grades = np.concatenate([one.grades[keep] for one, keep in zip(questions, kept, strict=True)])
    rules = [1 if name in _RISING else 0 for name in FEATURES]
    settings = {
        "objective": "lambdarank",
        "monotone_constraints": rules,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
        **{key: value for key, value in SETTINGS.items() if key != "trees"},
    }
    data = lightgbm.Dataset(table, grades, group=[int(keep.sum()) for keep in kept])
    made = lightgbm.train(settings, data, num_boost_round=SETTINGS["trees"])
    gains = np.asarray(made.feature_importance("gain"), np.float64)
    return flat_trees([one["tree_structure"] for one in made.dump_model()["tree_info"]]), gains


def flat_trees(structures: Sequence[Mapping[str, Any]]) -> Trees:
    """Trees as arrays, from LightGBM's nested form; children follow their parents."""
    feature: list[int] = []
    threshold, value = [], []
    left, right, roots = [], [], []
    for structure in structures:
        roots.append(len(feature))
        waiting: list[tuple[Mapping[str, Any], list[int], int]] = [(structure, roots, -1)]
        while waiting:
            node, links, parent = waiting.pop()
            place = len(feature)
            if parent >= 0:
                links[parent] = place
            inner = "split_feature" in node
            feature.append(int(node["split_feature"]) if inner else -1)
            threshold.append(float(node["threshold"]) if inner else 0.0)
            value.append(float(node["internal_value"] if inner else node["leaf_value"]))
            left.append(place)
            right.append(place)
            if inner:
                waiting.append((node["right_child"], right, place))
                waiting.append((node["left_child"], left, place))
    whole = (np.array(one, np.int64) for one in (roots, feature))
    root, reads = whole
    return Trees(
        root,
        reads,
        np.array(threshold, np.float64),
        np.array(left, np.int64),
        np.array(right, np.int64),
        np.array(value, np.float64),
    )
