"""Follow-up questions: by templates offline, by a model behind HTTP."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, TestsetError, Turn
from ragwright.experiment import Evaluating
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import Synthesizing, load_testset, write_rows

MANUAL = """# Error E4021

The code E4021 means that the coolant pump stopped.
The controller writes an entry into its log and holds the line until somebody confirms it.

## Remarks

Operators see a red lamp beside the panel whenever the line is held by the controller.
Nothing is lost while the line waits, since the belt keeps every part in its place.

## Repair

To fix this error, replace the fuse of the coolant pump and confirm at the panel.
"""
PLACES = """# Harbours

The Osprey ferry is a small boat that crosses the strait of Hallin every hour in summer.
Passengers of the Osprey ferry pay on board, and children travel without a ticket on all days.

The Marlow kiln is a round brick oven that stands beside the old quay of the northern harbour.
Visitors of the Marlow kiln climb a narrow stair, and the view from its top reaches the islands.

Since last spring the Osprey ferry also calls at the pier of Lund Bay on the way back.
"""
FIRST = "The Osprey ferry crosses the strait of Hallin in forty minutes."
SECOND = "The Osprey ferry carries 220 passengers and 38 cars on its lower deck."
HILLS = (
    "Visitors of the district like to stand at the rail and to look at the hills behind the town. "
    "On clear days the light reaches the old tower, and many people come for that view alone."
)
DECK = (
    "The crew ties every vehicle to the floor before the ramp is lifted and the engine starts. "
    "Drivers leave their seats during the trip, and a bell calls them back before the landing."
)
TALK = {
    "form": "pronoun",
    "question": "How long does the Osprey ferry take to cross the strait?",
    "answer": "It crosses the strait in forty minutes.",
    "follow_up": "And how many cars does it carry?",
    "standalone": "How many cars does the Osprey ferry carry?",
    "quote": SECOND,
    "follow_up_answer": "38 cars",
}
FOLLOW_UPS = Synthesizing(questions=1, kinds=("follow-up",), per_chunk=1)


def bench_of(tmp_path: Path, settings: str, **files: str) -> Workbench:
    bench = Workbench.open(MakeProject(tmp_path)(settings, **files))
    bench.ingest()
    return bench


def writing(change: dict[str, str], log: list[str] | None = None) -> Any:
    """Writes one conversation on two passages, and answers by the evidence."""

    def script(request: ServerRequest) -> str:
        if "<<first passage" in request.prompt:
            return json.dumps({"conversations": [{**TALK, **change}]})
        if log is not None:
            log.append(request.prompt)
        return json.dumps({"answerable": True, "answer": SECOND})

    return script


def with_model(tmp_path: Path, server: ScriptedServer) -> Workbench:
    settings = f"answer: {{model: '{server.url}#writer'}}\nchunk: {{size: 50, overlap: 0}}\n"
    text = f"# Ferry\n\n{FIRST} {HILLS}\n\n## Deck\n\n{SECOND} {DECK}\n"
    return bench_of(tmp_path, settings, **{"ferry.md": text})


def test_templates_ask_for_what_another_chunk_says(tmp_path: Path) -> None:
    files = {"e4021.md": MANUAL, "places.md": PLACES}
    with bench_of(tmp_path, "chunk: {size: 40, overlap: 5}\n", **files) as bench:
        how = Synthesizing(questions=10, kinds=("follow-up",))
        synthesis, run = bench.synth(how)
        again, _ = bench.synth(how)
        texts = {document.id: document.text for document in bench.documents()}
    assert run is None
    assert again.rows == synthesis.rows
    assert synthesis.weak == len(synthesis.rows)
    by_question = {row.user_input: row for row in synthesis.rows}
    fix = by_question["How do I fix it?"]
    assert fix.history[0] == Turn("user", "What does error E4021 mean?")
    assert fix.history[1].content.startswith("The code E4021 means")
    assert fix.reference.startswith("To fix this error, replace the fuse")
    assert fix.metadata["form"] == "pronoun"
    assert fix.metadata["meaning"] == "How do I fix error E4021?"
    assert by_question["What does it have to do with Lund Bay?"].metadata["weak"] is True
    assert by_question["And the Marlow kiln?"].metadata["form"] == "ellipsis"
    for row in synthesis.rows:
        (span,) = row.reference_spans
        assert texts[span.document_id][span.start : span.end] == span.text
        assert row.metadata["turn"] == 2
        assert row.metadata["standalone"] is False


def test_follow_ups_are_made_only_where_they_are_wanted(tmp_path: Path) -> None:
    with bench_of(tmp_path, "chunk: {size: 40, overlap: 5}\n", **{"e4021.md": MANUAL}) as bench:
        usual, _ = bench.synth(Synthesizing(questions=10, weak=True))
    assert usual.rows
    assert not any(row.history for row in usual.rows)


def test_a_document_of_one_chunk_has_none(tmp_path: Path) -> None:
    with (
        bench_of(tmp_path, "", **{"e4021.md": MANUAL}) as bench,
        pytest.raises(TestsetError, match="no document has two"),
    ):
        bench.synth(Synthesizing(questions=3, kinds=("follow-up",)))


def test_a_model_writes_follow_ups_that_are_asked_with_their_history(tmp_path: Path) -> None:
    checks: list[str] = []
    with ScriptedServer(writing({}, checks)) as server, with_model(tmp_path, server) as bench:
        forecast = bench.forecast_synth(FOLLOW_UPS)
        synthesis, run = bench.synth(FOLLOW_UPS)
        calls = len(server.requests)
        again, _ = bench.synth(FOLLOW_UPS)
        write_rows(synthesis.rows, tmp_path / "talks.jsonl")
        stored = load_testset(str(tmp_path / "talks.jsonl"), split="tune")
        assert len(server.requests) == calls == 2
        evaluation, _ = bench.evaluate(stored, "Recall@5", Evaluating(answers=False))
    assert forecast.calls.expected == 2
    assert run is not None
    assert again.rows == synthesis.rows
    (row,) = synthesis.rows
    assert row.user_input == TALK["follow_up"]
    assert row.history == (Turn("user", TALK["question"]), Turn("assistant", TALK["answer"]))
    assert row.reference_spans[0].text == SECOND
    assert synthesis.weak == 0
    assert "weak" not in row.metadata
    assert TALK["standalone"] in checks[0]
    assert TALK["follow_up"] not in checks[0]
    assert stored.rows[0].history == row.history
    assert evaluation["Recall@5"].n == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"quote": "The Osprey ferry never stops."}, "the evidence is not in the passage"),
        ({"quote": FIRST}, "the evidence is not in the passage"),
        ({"standalone": "When was it repaired after that?"}, "without context: has a pronoun"),
        ({"follow_up": "How many cars does the Osprey ferry carry on the lower deck?"},
         "the follow-up can be understood without the turns before it"),
        ({"answer": "In 12 hours by night."}, "the first answer is not in its passage"),
        ({"follow_up_answer": "500 lorries"}, "the answer is not in its evidence"),
    ],
)  # fmt: skip
def test_a_follow_up_that_does_not_hold_is_rejected(
    tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    with (
        ScriptedServer(writing(change)) as server,
        with_model(tmp_path, server) as bench,
        pytest.raises(TestsetError, match=re.escape(reason)),
    ):
        bench.synth(FOLLOW_UPS)


def test_a_malformed_conversation_is_asked_for_once_more(tmp_path: Path) -> None:
    bad, good = ({"conversations": [{**TALK, "form": form}]} for form in ("riddle", "pronoun"))
    check = {"answerable": True, "answer": SECOND}
    script = [json.dumps(reply) for reply in (bad, good, check)]
    with ScriptedServer(script) as server, with_model(tmp_path, server) as bench:
        synthesis, _ = bench.synth(FOLLOW_UPS)
        prompts = [request.prompt for request in server.requests]
    assert len(synthesis.rows) == 1
    assert '"form" must be one of pronoun, ellipsis, and-for' in prompts[1]


def test_levels_name_the_forms(tmp_path: Path) -> None:
    with ScriptedServer(writing({})) as server, with_model(tmp_path, server) as bench:
        with pytest.raises(ConfigError, match="unknown level 'riddle'"):
            bench.synth(Synthesizing(questions=1, kinds=("follow-up",), levels=("riddle",)))
        bench.synth(Synthesizing(questions=1, kinds=("follow-up",), levels=("pronoun",)))
        assert "ellipsis" not in server.requests[0].prompt
