"""`ragwright audit` on a project: stored, compared, gated, judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright.audit import Audit, AuditPlan, check_audit, check_kinds, read_rules
from ragwright.core import ConfigError, RetrieveError
from ragwright.project import Session
from ragwright.testing import ScriptedServer
from ragwright.workbench import Workbench

HOT = "The nozzle of the X5-HOT printer is heated to {} °C before the filament is loaded."
BED = "The bed is cleaned with alcohol after each print."
DOCUMENTS = {
    "a.md": f"# Heating\n\n{HOT.format(215)}\n\n{BED}",
    "b.md": f"# Bulletin\n\n{HOT.format(230)}\n\nSee [the guide](gone.md) for more.",
    "c.md": "# Fans\n\nThe fan of the case turns at full speed while the printer cools down.",
}
JUDGED = AuditPlan(kinds=("contradictions",), judge=True, every=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = MakeProject(tmp_path)("", **DOCUMENTS)
    with Workbench.open(made) as bench:
        bench.ingest()
    return made


@pytest.fixture
def bench(folder: Path) -> Iterator[Workbench]:
    with Workbench.open(folder) as opened:
        yield opened


def test_findings_are_ranked_stored_and_dismissed(bench: Workbench) -> None:
    audit, run = bench.audit()
    assert (audit.run, audit.documents) == (run.run, 3)
    # no model has confirmed a contradiction
    assert [finding.kind for finding in audit.findings] == ["references"]
    assert bench.audit()[0].findings == audit.findings
    [first] = audit.findings
    with pytest.raises(ConfigError, match="no stored audit has the finding"):
        bench.dismiss_finding("000000000000", "a test")
    with pytest.raises(ConfigError, match="needs a reason"):
        bench.dismiss_finding(first.id, " ")
    path = bench.dismiss_finding(first.id, "two printers")
    assert path.read_text("utf-8") == f"{first.id}  two printers\n"
    later, _ = bench.audit()
    assert (later.findings, later.dismissed) == ((), 1)
    found, _ = bench.audit(AuditPlan(kinds=("contradictions",)))
    assert found.notes == ("not looked for: contradictions, since it needs --judge",)
    with pytest.raises(ConfigError, match="no chat model can judge"):
        bench.audit(AuditPlan(judge=True))


def test_only_what_an_earlier_audit_does_not_have_is_new(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        snapshot = bench.audit()[0].snapshot
    moved = "Read this first.\n\n" + DOCUMENTS["b.md"] + "\n\nAnd see [more](lost.md)."
    (folder / "docs" / "b.md").write_text(moved, "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
        fresh, _ = bench.audit(AuditPlan(since=snapshot))
        assert [finding.marks["reference"] for finding in fresh.findings] == ["lost.md"]
        assert fresh.known == 1
        with pytest.raises(ConfigError, match="there is no audit of 'nothing'"):
            bench.audit(AuditPlan(since="nothing"))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("contradictions", "cannot read the rule"),
        ("contradictions>=3", "cannot read the rule"),
        ("copies=-1", "cannot read the rule"),
        ("contradiction=0", "unknown kind"),
        ("codes=0", "does not look for codes"),
    ],
)
def test_a_rule_that_cannot_be_held_is_refused(rule: str, problem: str) -> None:
    audit = Audit((), ("copies",))
    assert check_audit(audit, read_rules("copies<1, findings=0")) == ()
    with pytest.raises(ConfigError, match=problem):
        check_audit(audit, read_rules(rule))
    with pytest.raises(ConfigError, match="did you mean copies"):
        check_kinds(("copis",))


def test_an_empty_index_is_refused(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder) as bench, pytest.raises(RetrieveError, match="ingest"):
        bench.audit()


BOTH = '{"reason": "Both set it.", "verdict": "contradiction"}'
TWO = '{"reason": "Two models.", "verdict": "compatible"}'
BARE = '{"verdict": "contradiction"}'
DECLINED = '{"reason": "I may not.", "verdict": null}'


@pytest.mark.parametrize(
    ("replies", "found", "note"),
    [
        ([BOTH], True, ""),
        ([TWO], False, ""),
        (["perhaps", TWO], False, ""),
        ([BARE, "no"], False, "not judged: no usable judgment"),
        ([DECLINED], False, "not judged: the judge declined"),
    ],
)
def test_a_judge_confirms_pairs(folder: Path, replies: list[str], found: bool, note: str) -> None:
    with ScriptedServer(replies) as server:
        session = Session((f"judge.model={server.url}#m",))
        with Workbench.open(folder, session) as bench:
            assert bench.forecast_audit(JUDGED).models[f"{server.url}#m"] == 1
            assert not server.requests
            audit, _ = bench.audit(JUDGED)
            bench.audit(JUDGED)
        assert len(server.requests) == len(replies), "none is paid twice"
    assert [place.source for f in audit.findings for place in f.places] == (
        ["docs/a.md", "docs/b.md"] if found else []
    )
    assert any(n.startswith(note) for n in audit.notes) if note else not audit.notes
    assert "215" in server.requests[0].prompt
    assert "docs/b.md" in server.requests[0].prompt


def test_passages_that_no_question_of_a_test_set_finds(folder: Path) -> None:
    for number in range(25):
        text = f"# Part {number}\n\nThe nozzle of the X5-HOT of part {number} is hot.\n"
        (folder / "docs" / f"part{number}.md").write_text(text)
    row = {"user_input": "How hot is the nozzle of the X5-HOT?", "reference": "215 °C"}
    (folder / "set.jsonl").write_text(json.dumps(row) + "\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
        audit, _ = bench.audit(AuditPlan(kinds=("reach",), testset="set.jsonl"))
    reached = {place.source for f in audit.findings for place in f.places}
    assert "docs/c.md" in reached
    assert len(reached) == len(DOCUMENTS) + 25 - 20
    assert "first 20 hits of any of 1 question" in audit.findings[0].why
