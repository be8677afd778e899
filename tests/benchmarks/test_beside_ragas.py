"""Our judged measures over scripted replies are what was put beside ragas, and still agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.beside_ragas import (
    APIS,
    CLEAN,
    DIGITS,
    EACH_FAULT,
    RELATIONS,
    TOUCHED,
    Relation,
    agreement,
    difference,
    fault_lines,
    ours,
    same_claims,
    theirs,
)
from benchmarks.judge_script import Scripted, ScriptedJudge, scripted_rows
from benchmarks.peers.install import peers_python
from benchmarks.publish import RESULTS

from ragwright.testing import ServerRequest

STORED = json.loads((RESULTS / "beside-ragas.json").read_text("utf-8"))["data"]

pytestmark = [pytest.mark.slow, pytest.mark.needs_data]


@pytest.fixture(scope="module")
def table() -> list[Scripted]:
    """All rows of the stored comparison."""
    return scripted_rows(CLEAN, EACH_FAULT)


@pytest.fixture(scope="module")
def mine(table: list[Scripted]) -> dict[str, Any]:
    """Our scores today; a server that fails for good is asked nothing, it would take its time."""
    return ours([one for one in table if one.fault != "failing"])


def test_our_scores_are_those_that_were_compared(
    table: list[Scripted], mine: dict[str, Any]
) -> None:
    checked = 0
    for one in table:
        for measure, scores in mine.items():
            stored = STORED["ours"][measure][one.row.id]
            if one.fault == "failing":
                assert stored == "errored"
                continue
            told = scores[one.row.id]
            if isinstance(stored, str):
                assert (told["ended"], told["value"]) == (stored, None)
            else:
                assert told["value"] == pytest.approx(stored, abs=DIGITS)
            if one.fault not in ("", "malformed once") and measure in TOUCHED[one.fault]:
                due = "not_applicable" if one.fault == "no claims" else "judge_invalid"
                assert (told["ended"], told["value"]) == (due, None), (one.fault, measure)
            checked += 1
    assert checked == (CLEAN + EACH_FAULT * (len(TOUCHED) - 1)) * len(mine)


@pytest.mark.parametrize(
    "relation", RELATIONS, ids=lambda r: f"{r.ours}-{r.theirs}{'-read' if r.says else ''}"
)
@pytest.mark.parametrize("api", APIS)
def test_ratios_are_equal_where_the_definitions_are(
    relation: Relation, api: str, table: list[Scripted], mine: dict[str, Any]
) -> None:
    stored = STORED[f"ragas {api}"].get(relation.theirs)
    if stored is None:
        assert (relation.theirs, api) == ("context_relevance", "evaluate")
        return
    other = {row: {"value": None if isinstance(v, str) else v} for row, v in stored.items()}
    gaps = [difference(relation, one, mine[relation.ours], other) for one in table if not one.fault]
    known = [gap for gap in gaps if gap is not None]
    assert len(known) == CLEAN
    same = sum(gap < DIGITS for gap in known)
    readable = {r.ours for r in RELATIONS if r.says}
    if relation.says or relation.ours not in readable:
        assert same == CLEAN
    else:  # the definitions differ, and the rows must show it
        assert same < CLEAN


def test_a_request_that_is_not_in_the_script_is_refused(table: list[Scripted]) -> None:
    judge = ScriptedJudge(table)
    turns = [{"role": "user", "content": "How are you?"}]
    request = ServerRequest("POST", "/chat/completions", {}, {"messages": turns}, 1)
    assert judge(request).status == 400
    assert judge.unplaced


@pytest.mark.skipif(
    not peers_python("ragas").is_file(),
    reason="ragas' environment is not there: python -m benchmarks.peers.install ragas",
)
def test_ragas_itself_says_the_same_today() -> None:
    faults = ("", "refusing", "verdict missing")
    table = [one for one in scripted_rows(CLEAN, EACH_FAULT) if one.fault in faults]
    table = table[:6] + [one for one in table if one.fault]
    mine = ours(table)
    made = {api: theirs(table, api) for api in APIS}
    for line in agreement(table, mine, made):
        if line["read as"] != "it is" or line["ours"] in ("`Claims`", "`JudgedRecall`"):
            assert line["equal"] == line["rows"] == 6, line
    assert {same_claims(table, mine, other) for other in made.values()} == {6}
    assert fault_lines([], mine, made)
    missing = [one.row.id for one in table if one.fault == "verdict missing"]
    for other in made.values():
        assert all(other.scores["faithfulness"][row]["value"] is not None for row in missing)
