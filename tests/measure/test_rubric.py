"""A rubric file is whole or it is refused, with file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measure_fakes import SETUP, Says, judged, verdict

from ragwright.core import ConfigError, MeasureError
from ragwright.measure import (
    check_setup,
    definitions,
    find_rubric,
    load_rubrics,
    load_shipped_rubrics,
    parse_measure,
)

TONE = """\
name: tone
summary: How friendly the answer is.
scale: [0, 2]
needs: [response]
task: Judge how friendly the answer is.
levels:
  0: It is rude.
  1: It is neither.
  2: It is friendly.
high_example:
  response: With pleasure, here it is.
  reasoning: It offers help gladly.
  score: 2
low_example:
  response: Look it up yourself.
  reasoning: It sends the reader away.
  score: 0
"""


def write(folder: Path, text: str) -> Path:
    (folder / "rubrics").mkdir(exist_ok=True)
    (folder / "rubrics" / "tone.yaml").write_text(text, "utf-8")
    return folder


def test_a_project_brings_its_own_measure(tmp_path: Path) -> None:
    setup = replace(SETUP, rubrics=load_rubrics(write(tmp_path, TONE)))
    check_setup([parse_measure("Rubric(tone)")], setup)
    found = judged("Rubric(tone)", Says(verdict(2)), setup)
    assert (found.measure, found.value) == ("Rubric(tone)", 2)
    assert judged("Rubric(tone)", Says(verdict(3)), setup).state == "judge_invalid"
    assert load_rubrics(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("  1: It is neither.\n", "", 6, "level 1 is not described"),
        ("  2: It is friendly.", "  2: It is friendly.\n  3: More.", 10, "level 3 is not on"),
        ("  1: It is neither.", "  1: |-\n    a\n    b", 8, "one line"),
        ("  score: 2", "  score: 3", 13, "not on the scale"),
        ("  score: 2", "  score: 0", 13, "the low one 0"),
        ("  response: With pleasure, here it is.\n", "", 10, "has no response"),
        ("  reasoning: It sends", "  user_input: x\n  reasoning: It sends", 16, "does not need"),
        ("needs: [response]", "needs: [answer]", 4, "needs must name"),
        ("scale: [0, 2]", "scale: [2, 0]", 3, "scale must rise"),
        ("scale: [0, 2]", "scale: 5", 3, "scale must be a list"),
        ("name: tone", "name: other", 1, "both must be the same"),
        ("task: Judge how friendly the answer is.", 'task: ""', 5, "task must not be empty"),
        ("task:", "both_orders: true\ntask:", 5, "two texts"),
        ("  reasoning: It offers help gladly.", '  reasoning: ""', 12, "no reasoning"),
        (TONE, "- a\n", None, "."),
    ],
)
def test_a_fault_has_its_line(
    tmp_path: Path, old: str, new: str, line: int | None, said: str
) -> None:
    assert TONE.count(old) == 1
    with pytest.raises(ConfigError, match=said) as caught:
        load_rubrics(write(tmp_path, TONE.replace(old, new)))
    assert line is None or caught.value.where == f"rubrics/tone.yaml:{line}"


def test_shipped_rubrics_agree_with_the_catalogue() -> None:
    shipped = load_shipped_rubrics()
    known = {definition.name: definition for definition in definitions()}
    assert {"ContextRelevance", "Faithfulness", "AnswerRelevance", "Pairwise"} <= set(shipped)
    for name in set(shipped) & set(known):
        rubric, definition = shipped[name], known[name]
        assert list(rubric.scale) == [definition.low, definition.high]
        assert set(rubric.needs) == set(definition.needs)
        assert rubric.higher_is_better == definition.higher_is_better
    assert len({rubric.fingerprint for rubric in shipped.values()}) == len(shipped)


def test_an_edited_copy_takes_the_place_of_a_shipped_one_on_its_scale() -> None:
    shipped = load_shipped_rubrics()["Faithfulness"]
    edited = replace(shipped, task="Judge more mildly.")
    assert find_rubric("Faithfulness", {"Faithfulness": edited}) is edited
    assert edited.fingerprint != shipped.fingerprint
    says = Says(verdict(5))
    judged("Faithfulness", says, replace(SETUP, rubrics={"Faithfulness": edited}))
    assert "Judge more mildly." in says.seen[0].messages[0].content
    wider = replace(edited, scale=(0, 5))
    other = replace(wider, levels={**edited.levels, "0": "Nothing of it can be judged."})
    for wrong, said in ((other, "scale"), (wider, "level 0")):
        with pytest.raises(MeasureError, match=said):
            find_rubric("Faithfulness", {"Faithfulness": wrong})
