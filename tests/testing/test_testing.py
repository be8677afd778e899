"""The fixture that holds rows, or a system and its questions, to rules."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import SystemCallError
from ragwright.pytest_plugin import rag_gate
from ragwright.testing import RagGate

__all__ = ["rag_gate"]

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]

ROWS = [{"user_input": "Who?", "response": "Ada Byron", "reference": "Ada"}] * 10
QUESTIONS = [{"question": f"q{n}", "answer": f"a{n}"} for n in range(10)]
UNANSWERED = [{"user_input": f"q{n}", "reference": f"a{n}"} for n in range(10)]
UNREADABLE = "rule 'Contians>=1': unknown measure 'Contians'; did you mean Contains?"
KINDS = [
    {
        "id": f"{kind}-{n}",
        "user_input": f"What is the {kind} of {n}?",
        "response": "unknown" if kind == "price" else f"answer {n}",
        "reference": f"answer {n}",
        "kind": kind,
    }
    for kind in ("price", "colour", "weight", "maker")
    for n in range(8)
]


def right(question: str) -> str:
    return f"a{question[1:]}"


def down(question: str) -> str:
    raise ConnectionError("it is down")


@pytest.mark.parametrize(
    ("rows", "rule", "options", "measure", "n"),
    [
        (ROWS, "Contains>=1", {}, "Contains", 10),
        (ROWS[:3], "Contains>=0.9", {"least": 3}, "Contains", 3),
        (QUESTIONS, "ExactMatch>=1", {"system": right}, "ExactMatch", 10),
    ],
)
def test_rows_or_a_system_that_meet_the_rules_pass(
    rag_gate: RagGate, rows: list[Any], rule: str, options: Any, measure: str, n: int
) -> None:
    found = rag_gate(rows, rule, **options)[measure]
    assert (found.mean, found.n) == (1.0, n)


@pytest.mark.parametrize(
    ("rows", "rules", "options", "said"),
    [
        (ROWS, ["Contains>=1", "ExactMatch>=0.5"], {}, ["ExactMatch", "failed"]),
        ([*ROWS, {"user_input": "Where?", "reference": "x"}], ["Contains>=0.9"], {}, ["untrusted"]),
        (ROWS[:3], ["Contains>=0.9"], {}, ["at least 10 are required"]),
        (QUESTIONS, ["ExactMatch>=0.5"], {"system": lambda _: "no"}, ["ExactMatch", "failed"]),
        (ROWS, ["Contians>=1"], {}, [UNREADABLE]),
        (KINDS, ["ExactMatch>=0.9"], {}, ["price-0", "What is the price of 0?"]),
        (UNANSWERED, ["Contains>=0.9"], {}, ["no row has a score", "system='mine:answer'"]),
        (QUESTIONS, ["Contains>=0.9"], {}, ["'answer' may be", "system='mine:answer'"]),
    ],
    ids=["rule", "few scored", "few", "system", "no rule", "rows", "unanswered", "unsure"],
)
def test_what_misses_a_rule_fails_the_test_with_the_table(
    rag_gate: RagGate, rows: list[Any], rules: list[str], options: Any, said: list[str]
) -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        rag_gate(rows, *rules, **options)
    assert [words for words in said if words not in str(failed.value)] == []
    assert "colour" not in str(failed.value)
    assert said != [UNREADABLE] or str(failed.value) == UNREADABLE


def test_a_system_that_is_down_is_an_error_and_no_bad_score(rag_gate: RagGate) -> None:
    with pytest.raises(SystemCallError, match="failed on each of the first 3 rows"):
        rag_gate(QUESTIONS, "ExactMatch>=0.1", system=down)


def test_pytest_finds_it_by_its_entry_point_and_loads_nothing_before_it_is_asked_for() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module = importlib.import_module(declared["entry-points"]["pytest11"]["ragwright"])
    assert module.rag_gate is rag_gate
    code = (
        "import sys, ragwright.pytest_plugin\n"
        "print(*(name for name in ('ragwright.core', 'ragwright.testing') if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


CHAIN = """
def chain(question):
    number = question.strip("q?")
    return {"answer": f"a{number}", "contexts": [f"It is a{number}."]}
"""


@pytest.mark.slow
def test_the_example_of_the_guide_passes_fails_and_tells_wrong_rules(
    pytester: pytest.Pytester,
) -> None:
    def run(mypipeline: str, test_rag: str) -> pytest.RunResult:
        plugin = "from ragwright.pytest_plugin import rag_gate"
        pytester.makepyfile(conftest=plugin, mypipeline=mypipeline, test_rag=test_rag)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider")

    guide = (ROOT / "docs" / "guide" / "comparing.md").read_text("utf-8")
    example = guide.partition("```python no-run\n# test_rag.py\n")[2].partition("```")[0]
    assert "rag_gate" in example
    lines = "".join(f"q{n}?,a{n}\n" for n in range(12))
    (pytester.path / "questions.csv").write_text(f"question,answer\n{lines}", "utf-8")
    run(CHAIN, example).assert_outcomes(passed=1)
    wrong = "def test_it(rag_gate):\n    rag_gate([], 'Contians>=1')\n"
    failed = run("def chain(question):\n    return 'no', ['It is so.']\n", example + "\n\n" + wrong)
    failed.assert_outcomes(failed=2)
    failed.stdout.fnmatch_lines(["*TokenF1>=0.6*failed*"])
    shown = failed.outlines
    assert UNREADABLE in shown
    assert not any("_gate.py" in line or "_measure.py" in line for line in shown)
    assert not any("another exception" in line or "known:" in line for line in shown)
