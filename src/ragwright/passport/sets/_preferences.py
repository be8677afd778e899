"""RAGChecker's meta-evaluation (Ru et al. 2024): people prefer one of two answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core import Row, TestsetError
from .._people import Dimension, PeopleSet, Rated
from ._files import SetFiles, member

_ASPECTS = ("correctness", "completeness", "overall")


def ragchecker(files: SetFiles) -> PeopleSet:
    """RAGChecker: pairs of answers and preferences from -2 to 2; two people judged each pair.

    The differences of RAGChecker's own scores are recorded verdicts, if its file is there.
    """
    entries: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    published: dict[str, dict[str, float]] = {}
    for name in files.named("human_labeled_data.json", "baseline_ragchecker.json"):
        for where, entry in files.objects(name):
            pair = str(member(entry, "instance_id", where))
            scores = [entry.get(side, {}).get("ragchecker") for side in ("model1", "model2")]
            if all(scores):
                published[pair] = {
                    f"ragchecker {aspect}": scores[1][f"{aspect}_label"]
                    - scores[0][f"{aspect}_label"]
                    for aspect in _ASPECTS
                }
            else:
                entries.setdefault(pair, []).append((where, entry))
    if not entries:
        raise TestsetError(
            "there are no judgments of people",
            where=str(files.path),
            hint="human_labeled_data.json holds them; the other file holds RAGChecker's scores",
        )
    rated = tuple(_rated_pair(pair, of, published.get(pair, {})) for pair, of in entries.items())
    mapping = "-2 the first answer is much better, 2 the second"
    dimensions = tuple(Dimension(aspect, -2, 2, mapping) for aspect in _ASPECTS)
    note = "each row is a pair; a judge's verdict is its score of the second answer minus the first"
    return PeopleSet("ragchecker", rated, dimensions, (note,))


def _rated_pair(
    pair: str, entries: list[tuple[str, Mapping[str, Any]]], published: Mapping[str, float]
) -> Rated:
    where, entry = entries[0]
    rows: list[Row] = []
    models = []
    for side in ("model1", "model2"):
        model = member(entry, side, where)
        models.append(str(model.get("model_name", side)))
        rows.append(
            Row(
                pair if not rows else f"{pair}-second",
                member(entry, "query", where),
                member(model, "response", where),
                member(entry, "gt_answer", where),
            )
        )
    labels = {
        aspect: {
            f"annotator {number}": float(member(judged, f"{aspect}_label", place))
            for number, (place, judged) in enumerate(entries, 1)
        }
        for aspect in _ASPECTS
    }
    first, second = rows
    task = f"{entry.get('dataset', '')} {entry.get('query_id', pair)}"
    topic = str(entry.get("dataset", ""))
    return Rated(first, labels, task, " vs ".join(models), published, second, topic)
