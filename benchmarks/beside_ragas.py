"""Judged measures beside those of ragas, with the same scripted judge for both.

    python -m benchmarks.peers.install ragas     # once: ragas' own environment
    python -m benchmarks.beside_ragas [--publish]

Both tools call one HTTP server (:mod:`benchmarks.judge_script`), each with its own prompts. The
server returns the same judgment of a row to both. So the comparison covers how each tool computes
its scores: the claims it reads, the ratio it takes, and how it handles a reply that it cannot use.
It does not cover the quality of the prompts. ragas runs through both of its APIs: ``collections``
(``ragas.metrics.collections``, which its documentation recommends) and ``evaluate``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from benchmarks.judge_script import (
    EVERYWHERE,
    INSIDE,
    REASON,
    Scripted,
    ScriptedJudge,
    scripted_rows,
)
from benchmarks.peers.install import peers_python
from benchmarks.publish import ROOT, Cell, Section, Table, publish, section_lines
from ragwright.core import Score
from ragwright.flow import Runner
from ragwright.measure import MeasureSetup, parse_measures, score_row
from ragwright.models import Models, model_handlers
from ragwright.testing import ScriptedServer

CLEAN, EACH_FAULT = 60, 3
DIGITS = 1e-6
Api = Literal["collections", "evaluate"]
APIS: tuple[Api, ...] = ("collections", "evaluate")
COMMAND = (
    "python -m benchmarks.peers.install ragas   # once\npython -m benchmarks.beside_ragas --publish"
)

MEASURES = "Claims, QuestionSimilarity, JudgedRecall, JudgedPrecision@10, ContextRelevance"

Told: TypeAlias = Mapping[str, Any]
"""What a tool made of one row: ``value`` or None, how it ``ended``, the ``claims`` listed."""

Scores: TypeAlias = Mapping[str, Mapping[str, Told]]
"""By measure and row."""


@dataclass(frozen=True)
class Relation:
    """A measure of ours, one of theirs, and what ours would be under their definition."""

    ours: str
    theirs: str
    says: str = ""
    as_theirs: Callable[[Told, Scripted], float | None] = lambda result, scripted: result["value"]


def _zero_where_evasive(result: Told, scripted: Scripted) -> float | None:
    return 0.0 if all(scripted.evasive) else result["value"]


def _average_precision(result: Told, scripted: Scripted) -> float | None:
    """Mean of precision@rank over the ranks of useful passages, from the parts of our score."""
    useful = [result["parts"][f"passage {n}"] for n in range(1, len(result["parts"]) + 1)]
    at = [sum(useful[: n + 1]) / (n + 1) for n, held in enumerate(useful) if held]
    return sum(at) / len(at) if at else 0.0


def _from_zero_to_one(result: Told, scripted: Scripted) -> float | None:
    return (float(result["value"]) - 1) / 4


RELATIONS = (
    Relation("Claims", "faithfulness"),
    Relation("QuestionSimilarity", "answer_relevancy"),
    Relation(
        "QuestionSimilarity",
        "answer_relevancy",
        "0 where the judge calls every answer evasive",
        _zero_where_evasive,
    ),
    Relation("JudgedRecall", "context_recall"),
    Relation("JudgedPrecision@10", "context_precision_with_reference"),
    Relation(
        "JudgedPrecision@10",
        "context_precision_with_reference",
        "average precision of our verdicts",
        _average_precision,
    ),
    Relation(
        "JudgedPrecision@10",
        "context_precision_without_reference",
        "average precision of our verdicts",
        _average_precision,
    ),
    Relation("ContextRelevance", "context_relevance"),
    Relation("ContextRelevance", "context_relevance", "(ours - 1) / 4", _from_zero_to_one),
)
PARTNER = {  # the first relation of each
    relation.ours: relation.theirs
    for at, relation in enumerate(RELATIONS)
    if relation.ours not in {earlier.ours for earlier in RELATIONS[:at]}
}
TOUCHED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(EVERYWHERE, tuple(PARTNER)),
    "no claims": ("Claims",),
    "verdict missing": ("Claims",),
    "off the scale": ("Claims", "JudgedRecall", "JudgedPrecision@10", "ContextRelevance"),
    "no question": ("QuestionSimilarity",),
    "one question": ("QuestionSimilarity",),
}
"""Measures that a fault concerns."""


@contextmanager
def judge_server(table: Sequence[Scripted]) -> Iterator[ScriptedServer]:
    """The judge over HTTP.

    Raises:
        RuntimeError: It was asked something that is not in the script.
    """
    judge = ScriptedJudge(table)
    with ScriptedServer(judge, record=False) as server:
        yield server
    if judge.unplaced:
        raise RuntimeError(f"{len(judge.unplaced)} requests not in the script: {judge.unplaced[0]}")


def ours(table: Sequence[Scripted], measures: str = MEASURES) -> dict[str, dict[str, Told]]:
    """Our scores, every measure on every row."""
    chosen = parse_measures(measures)
    with judge_server(table) as server, Runner(model_handlers(Models())) as runner:
        setup = MeasureSetup(model=f"{server.url}#scripted", embedder=f"{server.url}#scripted")
        rows = [scripted.row for scripted in table]
        scored = list(runner.map(score_row(row, chosen, setup) for row in rows))
    results: dict[str, dict[str, Told]] = {str(measure): {} for measure in chosen}
    for row, scores in zip(rows, scored, strict=True):
        for score in scores:
            results[score.measure][row.id] = _told(score)
    return results


def _told(score: Score) -> Told:
    result: dict[str, Any] = {
        "value": score.value,
        "ended": score.state,
        "parts": dict(score.parts),
    }
    if score.measure == "Claims":
        lines = score.detail.splitlines()
        result["claims"] = [line[2:].removesuffix(f" ({REASON})") for line in lines]
    return result


@dataclass(frozen=True)
class Theirs:
    """What ragas made of the rows, asked in one way.

    Attributes:
        scores: By metric and row.
        more: What else was seen: ``printed`` means of ``evaluate``, the ``batch`` with a refusal.
        versions: Of ragas and what it stands on.
    """

    scores: Scores
    more: Mapping[str, Any]
    versions: Mapping[str, str]


def theirs(table: Sequence[Scripted], api: Api) -> Theirs:
    """Every row scored by ragas in its own environment, asked in one of its ways.

    Raises:
        CalledProcessError: ragas' environment is not as it should be.
    """
    rows = [
        {
            "id": scripted.row.id,
            "user_input": scripted.row.user_input,
            "response": scripted.row.response,
            "reference": scripted.row.reference,
            "retrieved_contexts": list(scripted.row.retrieved_contexts),
        }
        for scripted in table
    ]
    with judge_server(table) as server, tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "in.json", Path(folder) / "out.json"
        given.write_text(json.dumps({"url": server.url, "api": api, "rows": rows}), "utf-8")
        subprocess.run(
            [str(peers_python("ragas")), "-m", "benchmarks.peers.ragas_judged", given, out],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        output = json.loads(out.read_text("utf-8"))
        return Theirs(output["scores"], output["more"], output["versions"])


def agreement(
    table: Sequence[Scripted], mine: Scores, by_api: Mapping[Api, Theirs]
) -> list[dict[str, Cell]]:
    """One line a relation and way of asking ragas, over the rows without a fault."""
    clean = [scripted for scripted in table if not scripted.fault]
    lines: list[dict[str, Cell]] = []
    for relation in RELATIONS:
        for api, other in by_api.items():
            if relation.theirs not in other.scores:
                continue
            apart = [
                difference(relation, scripted, mine[relation.ours], other.scores[relation.theirs])
                for scripted in clean
            ]
            known = [gap for gap in apart if gap is not None]
            lines.append(
                {
                    "ours": f"`{relation.ours}`",
                    "read as": relation.says or "it is",
                    "ragas": f"`{relation.theirs}`",
                    "asked by": f"`{api}`",
                    "rows": len(clean),
                    "equal": sum(gap < DIGITS for gap in known),
                    "largest difference": max(known) if known else None,
                }
            )
    return lines


def difference(
    relation: Relation, scripted: Scripted, mine: Mapping[str, Told], other: Mapping[str, Told]
) -> float | None:
    """How far two scores of a row are apart, None where one is missing."""
    result, reported = mine[scripted.row.id], other[scripted.row.id]["value"]
    if result["value"] is None or reported is None:
        return None
    value = relation.as_theirs(result, scripted)
    return None if value is None else abs(value - float(reported))


def same_claims(table: Sequence[Scripted], mine: Scores, other: Theirs) -> int:
    """On how many rows without a fault both hold the same claims, in one order."""
    return sum(
        mine["Claims"][scripted.row.id]["claims"]
        == other.scores["faithfulness"][scripted.row.id]["claims"]
        for scripted in table
        if not scripted.fault
    )


def fault_lines(
    table: Sequence[Scripted], mine: Scores, by_api: Mapping[Api, Theirs]
) -> list[dict[str, Cell]]:
    """For each fault, how its rows ended; measures that ended alike share a line."""
    lines: list[dict[str, Cell]] = []
    for fault, touched in TOUCHED.items():
        hit = [scripted.row.id for scripted in table if scripted.fault == fault]
        together: dict[tuple[str, ...], list[str]] = {}
        for measure in touched:
            ends = [_ends([mine[measure][row] for row in hit], fault)]
            for other in by_api.values():
                results = other.scores.get(PARTNER[measure])
                ends.append(_ends([results[row] for row in hit], fault) if results else "not there")
            together.setdefault(tuple(ends), []).append(f"`{measure}`")
        for (ourself, *others), measures in together.items():
            line: dict[str, Cell] = {"replies": fault, "measure": ", ".join(measures)}
            line["ours"] = ourself
            line |= {f"ragas, `{api}`": end for api, end in zip(by_api, others, strict=True)}
            lines.append(line)
    return lines


def _ends(results: Sequence[Told], fault: str) -> str:
    """How rows ended; the values too where the reply was well formed and something was odd."""
    ends = Counter(str(each["ended"]) for each in results)
    scored = ends.pop("scored", 0) + ends.pop("value", 0)
    parts = [f"`{end}` {n}" for end, n in sorted(ends.items())]
    if scored:
        values = sorted(each["value"] for each in results if each["value"] is not None)
        shown = " (" + ", ".join(f"{value:.2f}" for value in values) + ")"
        parts.insert(0, f"scored {scored}{shown if fault in INSIDE else ''}")
    return ", ".join(parts)


def section(table: Sequence[Scripted], mine: Scores, by_api: Mapping[Api, Theirs]) -> Section:
    """All of it as a section of a page; no text of the data set goes into it."""
    clean = sum(not scripted.fault for scripted in table)
    claims = {api: same_claims(table, mine, other) for api, other in by_api.items()}
    batch = by_api["collections"].more["batch"]
    printed = by_api["evaluate"].more["printed"]["faithfulness"]
    scored = sum(
        result["value"] is not None for result in by_api["evaluate"].scores["faithfulness"].values()
    )
    return Section(
        "Judged measures beside ragas",
        (
            Table(agreement(table, mine, by_api), "Rows whose judge makes no fault"),
            Table(fault_lines(table, mine, by_api), "Rows whose judge does, three for each fault"),
        ),
        notes=(
            "Equal is less than 0.000001 apart. Largest differences are of one row.",
            f"The same claims in the same order: {claims['collections']} of {clean} rows "
            f"(`collections`), {claims['evaluate']} of {clean} (`evaluate`).",
            f"`evaluate` prints faithfulness as {printed:.4f}: the mean of {scored} of "
            f"{len(table)} rows, with no word of the others. A batch of {batch['rows']} rows by "
            f"`abatch_score`, one of them refused by the judge, {batch['ended']}: "
            f"{batch['returned']} scores are returned.",
            "Replies: malformed is prose without JSON, every time or in the first reply to a "
            "prompt alone; cut off is half of a reply with the finish reason `length`; failing is "
            "status 500. Off the scale is 2 where 0 or 1 is asked for, 3 where 0 to 2 is.",
            "Verdicts are drawn from a seed, so the values mean nothing; that they are the same "
            "is what is shown. For `ContextRelevance` the script says 1, 3, 5 where it says 0, 1, "
            "2 to both judges of ragas, so that line shows the change of scale and no more. "
            "`evaluate` runs with `bypass_n`, since the server gives one reply a "
            "request.",
        ),
        command=COMMAND,
        page="judging",
        order=20,
        conditions={**by_api["collections"].versions, "rows": "ragchecker_meta, seed 4"},
        data={
            "ours": {name: _kept(scores) for name, scores in mine.items()},
            **{
                f"ragas {api}": {name: _kept(scores) for name, scores in other.scores.items()}
                for api, other in by_api.items()
            },
            "same claims": claims,
        },
    )


def _kept(scores: Mapping[str, Told]) -> dict[str, float | str]:
    """A value or how it ended, by row."""
    return {
        row: str(result["ended"]) if result["value"] is None else round(result["value"], 9)
        for row, result in scores.items()
    }


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--publish", action="store_true", help="store the figures and the page")
    given = parser.parse_args()
    if not peers_python("ragas").is_file():
        raise SystemExit("ragas is not installed: run python -m benchmarks.peers.install ragas")
    table = scripted_rows(CLEAN, EACH_FAULT)
    mine = ours(table)
    by_api = {api: theirs(table, api) for api in APIS}
    report = section(table, mine, by_api)
    print("\n".join(section_lines(report)))
    if given.publish:
        print(publish("beside-ragas", report))


if __name__ == "__main__":
    main()
