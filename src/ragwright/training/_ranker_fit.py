"""Fitting rankers: boosted regression trees for rankings (LambdaMART, Burges 2010)."""

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
"""Settings found on development collections: docs/decisions/0021-ranker.md."""

_RISING = {"search", "search_rank", "keyword", "keyword_rank", "keyword_held", "dense"}
_RISING |= {"dense_rank", "both", "codes", "title", "text", "beginning", "together", "support"}
_RISING |= {"sparse", "sparse_rank", "late", "late_rank"}
"""Features that never lower a score when they grow."""


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
    """The effect of a feature in a ranker.

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
    """Fitted trees and their figures from cross-validation.

    Attributes:
        trees: Trees of all training questions.
        before: MRR@10 of the search's own order.
        after: MRR@10 by cross-validation: each question by trees that have not seen it.
        questions: Training questions.
        effects: Effect of each feature, the greatest gain first.
    """

    trees: Trees
    before: float
    after: float
    questions: int
    effects: tuple[FeatureEffect, ...]


def fit_ranker(questions: Sequence[RankedQuestion], seed: int = 0) -> RankerFit:
    """Fit trees to the questions' hits, with cross-validation.

    Features of which more is better by their meaning (a score, a share of words) can only raise a
    score; length and place of a chunk can do both.

    Raises:
        MissingExtraError: LightGBM is not installed.
        TestsetError: Too few questions have gold among their hits and a hit beside it, or all of
            them share their gold.
    """
    useful = [question for question in questions if _is_useful(question)]
    if len(useful) < LEAST_QUESTIONS:
        raise TestsetError(
            f"{len(useful)} training questions have gold among the hits of the search; a ranker "
            f"needs {LEAST_QUESTIONS}",
            hint="add rows with reference_ids or spans, or make some: ragwright synth",
        )
    require("lightgbm", "train", "tuning a ranker")
    names = sorted({question.cluster for question in questions})
    random = np.random.default_rng(seed)
    fold_of = dict(zip(names, (random.permutation(len(names)) % FOLDS).tolist(), strict=True))
    tested: list[tuple[RankedQuestion, Trees]] = []
    for fold in range(FOLDS):
        rest = [question for question in useful if fold_of[question.cluster] != fold]
        if not rest:
            raise TestsetError(
                "all training questions share their gold: none is left to check a ranker on",
                hint="add questions that other passages or documents answer",
            )
        trees, _ = _boosted_trees(rest, seed)
        tested += [(question, trees) for question in questions if fold_of[question.cluster] == fold]
    before = float(np.mean([reciprocal(question.grades) for question in questions]))
    after = float(np.mean([_reciprocal_by_trees(question, trees) for question, trees in tested]))
    trees, gains = _boosted_trees(useful, seed)
    effects = [
        FeatureEffect(
            name,
            float(gains[index] / max(float(gains.sum()), 1e-12)),
            _feature_direction(trees, useful, index) if gains[index] else "",
            _mean_without_feature(tested, index, seed) if gains[index] else after,
        )
        for index, name in enumerate(FEATURES)
    ]
    ordered = tuple(sorted(effects, key=lambda question: (-question.gain, question.name)))
    return RankerFit(trees, before, after, len(questions), ordered)


def reciprocal(grades: Grades) -> float:
    """Return 1 / rank of the first hit that answers, of the first ten; else 0."""
    answering = np.flatnonzero(grades[:DEPTH] > 0)
    return 1.0 / (int(answering[0]) + 1) if len(answering) else 0.0


def _is_useful(question: RankedQuestion) -> bool:
    return bool((question.grades > 0).any() and (question.grades == 0).any())


def _reciprocal_by_trees(question: RankedQuestion, trees: Trees) -> float:
    if not len(question.grades):
        return 0.0
    order = np.argsort(-np.round(trees.scores(question.table), 6), kind="stable")
    return reciprocal(question.grades[order])


def _mean_without_feature(
    tested: Sequence[tuple[RankedQuestion, Trees]], index: int, seed: int
) -> float:
    random = np.random.default_rng(seed)
    total = 0.0
    for question, trees in tested:
        table = question.table.copy()
        random.shuffle(table[:, index])
        total += _reciprocal_by_trees(
            RankedQuestion(table, question.grades, question.cluster), trees
        )
    return total / len(tested)


def _feature_direction(trees: Trees, questions: Sequence[RankedQuestion], index: int) -> str:
    """Return the direction in which a feature moves the scores of a sample of hits."""
    table = np.concatenate([question.table for question in questions[:50]])
    shares, values = trees.shares(table)[:, index], table[:, index]
    if shares.std() < 1e-12 or values.std() < 1e-12:
        return ""
    return "up" if float(np.corrcoef(values, shares)[0, 1]) > 0 else "down"


def _boosted_trees(questions: Sequence[RankedQuestion], seed: int) -> tuple[Trees, Table]:
    """Return trees, and the gain of each feature."""
    import lightgbm

    usable = [question.grades >= 0 for question in questions]
    table = np.concatenate(
        [question.table[mask] for question, mask in zip(questions, usable, strict=True)]
    )
    grades = np.concatenate(
        [question.grades[mask] for question, mask in zip(questions, usable, strict=True)]
    )
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
    data = lightgbm.Dataset(table, grades, group=[int(mask.sum()) for mask in usable])
    booster = lightgbm.train(settings, data, num_boost_round=SETTINGS["trees"])
    gains = np.asarray(booster.feature_importance("gain"), np.float64)
    return flat_trees([tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]), gains


def flat_trees(structures: Sequence[Mapping[str, Any]]) -> Trees:
    """Return trees as arrays, from LightGBM's nested form; children follow their parents."""
    feature: list[int] = []
    threshold, value = [], []
    left, right, roots = [], [], []
    for structure in structures:
        roots.append(len(feature))
        pending: list[tuple[Mapping[str, Any], list[int], int]] = [(structure, roots, -1)]
        while pending:
            node, links, parent = pending.pop()
            place = len(feature)
            if parent >= 0:
                links[parent] = place
            splits = "split_feature" in node
            feature.append(int(node["split_feature"]) if splits else -1)
            threshold.append(float(node["threshold"]) if splits else 0.0)
            value.append(float(node["internal_value"] if splits else node["leaf_value"]))
            left.append(place)
            right.append(place)
            if splits:
                pending.append((node["right_child"], right, place))
                pending.append((node["left_child"], left, place))
    return Trees(
        np.array(roots, np.int64),
        np.array(feature, np.int64),
        np.array(threshold, np.float64),
        np.array(left, np.int64),
        np.array(right, np.int64),
        np.array(value, np.float64),
    )
