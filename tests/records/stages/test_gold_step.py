"""Gold rows are those of a plain loop over silver rows."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from records_rows import bronze_of, cleaning_of, declared, tags_of

from ragwright.core import RecordsError
from ragwright.records import HASH, KEY, REASON, Rollups, Rules, load_shipped_format
from ragwright.records.declared import read_rollups, read_rules
from ragwright.records.stages import GoldStep, SilverStep

TAGS = r"""
tags:
  gift ask: '(?i)chip in|donate'
  petition ask: '(?i)petition'
  health_hook: '(?i)health'
  doctors_hook: {pattern: doctor, display: health}
  tax_hook: tax
  angry tone: '!!'
  calm tone: calm
"""
RULES = r"""
length_groups: {short: 20, medium: 40, long: null}
refine:
- {if: {ask_type: gift, text: '(?i)match'}, set: {fundraising_type: match}}
- {if: {ask_type: [gift, petition], party: '^D$'}, set: {fundraising_type: plain}}
- {if: {fundraising_type: match}, set: {ask_type: matched gift}}
- {if: {ask_type: matched gift, length: long}, set: {ask_type: never, tone: [calm, long]}}
- {if: {client: Jane Doe, topic: health}, set: {topic: []}}
contradictions:
- {name: mood, tags: [angry tone, calm tone]}
- {name: all, tags: [gift ask, petition ask, angry tone]}
"""
NAMES = '{Jane Doe: ["DOE, JANE", "Jane Doe for Congress"]}'


def rules_of(text: str) -> Rules:
    file = declared(text)
    made = read_rules(file, tags_of(TAGS))
    assert not file.faults, file.faults
    return made


def rollups_of(text: str) -> Rollups:
    file = declared(text)
    made = read_rollups(file, Path())
    assert not file.faults, file.faults
    return made


def step_of(rules: str = RULES, keep: tuple[str, ...] = ("party",)) -> GoldStep:
    rollups = rollups_of(f"client: {{column: sender, names: {NAMES}}}")
    return GoldStep(tags_of(TAGS), rollups, rules_of(rules), load_shipped_format(), keep)


def silver_of(rows: list[dict[str, Any]]) -> Any:
    texts = [row["text"] for row in rows]
    others = {n: [row[n] for row in rows] for n in ("sender", "party")}
    step = SilverStep(cleaning_of("steps: []"), tags_of(TAGS), "body")
    return step(bronze_of(texts, **others)).drop_columns([REASON])


def gold(*texts: str, sender: str | None = "doe, jane", party: str | None = "D") -> Any:
    rows = [{"text": text, "sender": sender, "party": party} for text in texts]
    return step_of()(silver_of(rows)).to_pylist()


def plainly(row: dict[str, Any]) -> dict[str, Any]:
    """The record of a row, rule by rule."""
    text, tags = row["text"], tags_of(TAGS).tags
    carried = [tag for tag in tags if re.search(tag.pattern.find, text)]
    made: dict[str, Any] = {
        kind: list(dict.fromkeys(tag.display for tag in carried if tag.kind == kind))
        for kind in ("ask_type", "topic", "tone")
    }
    known = {"doe, jane", "jane doe", "jane doe for congress"}
    sender = row["sender"]
    made["client"] = "Jane Doe" if sender and sender.strip(" .").lower() in known else sender
    made["length"] = "short" if len(text) < 20 else "medium" if len(text) < 40 else "long"
    made["fundraising_type"] = None
    done: set[str] = set()

    def put(name: str, value: Any) -> None:
        if name not in done:
            made[name] = value
            done.add(name)

    if "gift" in made["ask_type"] and re.search("(?i)match", text):
        put("fundraising_type", "match")
    if {"gift", "petition"} & set(made["ask_type"]) and row["party"] == "D":
        put("fundraising_type", "plain")
    if made["fundraising_type"] == "match":
        put("ask_type", ["matched gift"])
    if made["ask_type"] == ["matched gift"] and made["length"] == "long":
        put("ask_type", ["never"])
        put("tone", ["calm", "long"])
    if made["client"] == "Jane Doe" and "health" in made["topic"]:
        put("topic", [])
    names = {tag.name for tag in carried}
    made[REASON] = None
    if {"gift ask", "petition ask", "angry tone"} <= names:
        made[REASON] = "contradiction: all"
    if {"angry tone", "calm tone"} <= names:
        made[REASON] = "contradiction: mood"
    made |= {"text": text, "party": row["party"]}
    made["document"] = load_shipped_format().fill(made)
    made["message_at"] = load_shipped_format().message_at(made)
    return made


WORDS = ["donate", "Petition", "health", "doctor", "tax", "!!", "calm", "match", "word", "❤️"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join),
            "sender": st.sampled_from(["DOE, jane. ", "Jane Doe", "Sam", None]),
            "party": st.sampled_from(["D", "R", "", None]),
        }
    ),
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_rows_are_those_of_a_plain_loop(rows: list[dict[str, Any]]) -> None:
    made = step_of()(silver_of(rows)).to_pylist()
    for row, found in zip(rows, made, strict=True):
        assert {n: v for n, v in found.items() if n not in (KEY, HASH)} == plainly(row)


def test_the_assembled_text_and_where_the_message_begins() -> None:
    (row,) = gold("Chip in now, match ends!!")
    assert row["document"] == (
        "A medium matched gift text message from Jane Doe written with an emphasis on angry:\n\n"
        "Chip in now, match ends!!"
    )
    assert row["document"][row["message_at"] :] == "Chip in now, match ends!!"


def test_hashes_follow_what_documents_depend_on() -> None:
    rows = [{"text": "donate", "sender": "Sam", "party": "D"}]
    before = step_of()(silver_of(rows))[HASH].to_pylist()
    assert step_of()(silver_of([{**rows[0], "party": "R"}]))[HASH].to_pylist() != before
    assert step_of()(silver_of([{**rows[0], "sender": "Tom"}]))[HASH].to_pylist() != before
    groups = RULES.replace("short: 20", "brief: 20")
    assert step_of(groups)(silver_of(rows))[HASH].to_pylist() != before
    # a column that documents do not carry changes nothing
    bare = step_of("refine: []", keep=())
    one, other = (bare(silver_of([{**rows[0], "party": p}])) for p in "DR")
    assert one[HASH].to_pylist() == other[HASH].to_pylist()


def test_steps_are_values() -> None:
    assert pickle.loads(pickle.dumps(step_of())) == step_of()


@pytest.mark.parametrize(
    ("step", "told", "where"),
    [
        (step_of(keep=("partei",)), "'partei'", "source.yaml: keep"),
        (step_of("refine: [{if: {partei: D}, set: {x: y}}]"), "'partei'", "file.yaml:1"),
        (
            GoldStep(
                tags_of(TAGS), Rollups("sendr", column_line="r:2"), Rules(), load_shipped_format()
            ),
            "'sendr'",
            "r:2",
        ),
    ],
)
def test_a_column_that_is_not_there_is_named(step: GoldStep, told: str, where: str) -> None:
    with pytest.raises(RecordsError, match=told) as caught:
        step(silver_of([{"text": "x", "sender": "s", "party": "D"}]))
    assert caught.value.where == where


def test_a_client_column_needs_no_rollups() -> None:
    batch = silver_of([{"text": "x", "sender": "Sam", "party": "D"}])
    step = GoldStep(tags_of(TAGS), Rollups(), Rules(), load_shipped_format())
    assert step(batch)["client"].to_pylist() == [None]
    renamed = batch.rename_columns([n.replace("sender", "client") for n in batch.column_names])
    assert step(renamed)["client"].to_pylist() == ["Sam"]


def test_a_record_may_say_something_of_its_own_column_names() -> None:
    made = step_of(keep=("party", "client"))(
        silver_of([{"text": "x", "sender": "Sam", "party": "D"}])
    )
    assert made.column_names.count("client") == 1
