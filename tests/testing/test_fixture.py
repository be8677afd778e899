"""The fixture that holds rows, or a system and its questions, to rules."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ragwright.core import SystemCallError
from ragwright.pytest_plugin import rag_gate
from ragwright.testing import RagGate

__all__ = ["rag_gate"]

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]

ROWS = [{"user_input": "Who?", "response": "Ada Byron", "reference": "Ada"}] * 10


def test_rows_that_meet_the_rules_pass(rag_gate: RagGate) -> None:
    assert rag_gate(ROWS, "Contains>=1")["Contains"].mean == 1.0


def test_rows_that_miss_a_rule_fail_the_test_with_the_table(rag_gate: RagGate) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)ExactMatch.*failed"):
        rag_gate(ROWS, "Contains>=1", "ExactMatch>=0.5")


def test_too_few_scored_rows_are_not_trusted(rag_gate: RagGate) -> None:
    rows = [*ROWS, {"user_input": "Where?", "reference": "Here"}]
    with pytest.raises(pytest.fail.Exception, match="untrusted"):
        rag_gate(rows, "Contains>=0.9")
    with pytest.raises(pytest.fail.Exception, match="at least 10 are required"):
        rag_gate(ROWS[:3], "Contains>=0.9")
    assert rag_gate(ROWS[:3], "Contains>=0.9", least=3)["Contains"].n == 3


def test_a_rule_that_cannot_be_read_fails_in_one_line(
    rag_gate: RagGate, pytester: pytest.Pytester
) -> None:
    said = "rule 'Contians>=1': unknown measure 'Contians'; did you mean Contains?"
    with pytest.raises(pytest.fail.Exception) as failed:
        rag_gate(ROWS, "Contians>=1")
    assert str(failed.value) == said
    pytester.makepyfile(
        conftest="from ragwright.pytest_plugin import rag_gate",
        test_rag="def test_it(rag_gate):\n    rag_gate([], 'Contians>=1')\n",
    )
    shown = pytester.runpytest_subprocess("-p", "no:cacheprovider").outlines
    assert said in shown
    assert not any("_gate.py" in line or "_measure.py" in line for line in shown)
    assert not any("another exception" in line or "known:" in line for line in shown)


def test_failing_rows_and_slices_are_named(rag_gate: RagGate) -> None:
    rows = [
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
    with pytest.raises(pytest.fail.Exception) as failed:
        rag_gate(rows, "ExactMatch>=0.9")
    said = str(failed.value)
    assert "kind = price  0.000  8   1.000  24" in said
    assert "price-0" in said
    assert "What is the price of 0?" in said
    assert "colour" not in said


QUESTIONS = [{"question": f"q{n}", "answer": f"a{n}"} for n in range(10)]


def test_a_system_is_asked_and_held_to_rules(rag_gate: RagGate) -> None:
    def system(question: str) -> str:
        return f"a{question[1:]}"

    assert rag_gate(QUESTIONS, "ExactMatch>=1", system=system)["ExactMatch"].n == 10
    with pytest.raises(pytest.fail.Exception, match=r"(?s)ExactMatch.*failed"):
        rag_gate(QUESTIONS, "ExactMatch>=0.5", system=lambda question: "no")


def test_a_system_that_is_down_is_an_error_and_no_bad_score(rag_gate: RagGate) -> None:
    def system(question: str) -> str:
        raise ConnectionError("it is down")

    with pytest.raises(SystemCallError, match="failed on each of the first 3 rows"):
        rag_gate(QUESTIONS, "ExactMatch>=0.1", system=system)


def test_pytest_finds_it_by_its_entry_point() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module = importlib.import_module(declared["entry-points"]["pytest11"]["ragwright"])
    assert module.rag_gate is rag_gate


def test_the_plug_in_loads_nothing_before_the_fixture_is_asked_for() -> None:
    code = (
        "import sys, ragwright.pytest_plugin\n"
        "print(*(name for name in ('ragwright.core', 'ragwright.testing') if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


@pytest.mark.slow
def test_the_example_of_the_guide(pytester: pytest.Pytester) -> None:
    guide = (ROOT / "docs" / "guide" / "comparing.md").read_text("utf-8")
    _, _, rest = guide.partition("```python no-run\n# test_rag.py\n")
    example = rest.partition("```")[0]
    assert "rag_gate" in example
    pytester.makepyfile(
        conftest="from ragwright.pytest_plugin import rag_gate",
        mypipeline="""
            def chain(question):
                number = question.strip("q?")
                return {"answer": f"a{number}", "contexts": [f"It is a{number}."]}
        """,
        test_rag=example,
    )
    lines = "".join(f"q{n}?,a{n}\n" for n in range(12))
    (pytester.path / "questions.csv").write_text(f"question,answer\n{lines}", "utf-8")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    pytester.makepyfile(mypipeline="def chain(question):\n    return 'no', ['It is so.']\n")
    failed = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*TokenF1>=0.6*failed*"])
