"""Promotion: what is served changes only through the gate, whole, and can be gone back on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import yaml
from children import child, context, started
from drafted import REQUEST, drafted
from hypothesis import given, strategies as st
from small_project import MakeProject
from story_tools import write_files

from ragwright import Session, Workbench
from ragwright.core import (
    ConfigError,
    RecordsError,
    Row,
    StoreBusyError,
    StoreError,
    StoreFullError,
)
from ragwright.drafting import OutputQuery, OutputSample, draft_plan, origin_of, save_drafts
from ragwright.experiment import EvaluationOptions, evaluate_outputs
from ragwright.jobs import PromotionGate, PromotionOptions
from ragwright.ledger import Ledger
from ragwright.measure import GateOptions
from ragwright.project import SERVED_SECTIONS, Project, Served, configuration_of, load_settings
from ragwright.testing import ScriptedServer
from ragwright.testsets import Testset

PARTS = ("brake", "coolant", "filter", "belt", "battery", "tyre", "wiper", "lamp")
DOCS = {f"{part}.md": f"# The {part}\n\nThe {part} is changed every two years.\n" for part in PARTS}
ROWS = tuple(
    Row(f"q{n}", f"When is the {part} changed?", reference_ids={f"docs/{part}.md": 1})
    for n, part in enumerate(PARTS)
)
FORMAT = """
prompt_variables: [ask_type, text]
prompt_structure: "{} %s text:\\n\\n%s"
"""
OPEN = PromotionOptions(PromotionGate(GateOptions(least=6)))
RULE = ("HitRate@1>=0.5",)
ALONE = replace(OPEN, rules_alone=True)
NEAR = ("HitRate@1>=baseline-0.5",)
"""What eight equal rows can show."""


def measured(folder: Path, *overrides: str) -> str:
    """The run of an evaluation under some settings."""
    with Workbench.open(folder, Session(overrides)) as bench:
        bench.ingest()
        _, summary = bench.evaluate(Testset("set", ROWS), "HitRate@1")
        return summary.run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """A project, runs under 3 to 7 passages, and a bad one."""
    folder = MakeProject(tmp_path_factory.mktemp("measured"))("", **DOCS)
    runs = [measured(folder, f"retrieve.top_k={k}") for k in range(3, 8)]
    return folder, runs, measured(folder, "retrieve.max_query_chars=4")


@pytest.fixture
def folder(made: tuple[Path, list[str], str], tmp_path: Path) -> Path:
    """The project of those runs."""
    return Path(shutil.copytree(made[0], tmp_path / "project"))


@pytest.fixture
def runs(made: tuple[Path, list[str], str]) -> list[str]:
    return made[1]


@pytest.mark.slow
def test_nothing_is_served_before_something_is_promoted(folder: Path, runs: list[str]) -> None:
    with pytest.raises(ConfigError, match="no configuration is served"):
        Workbench.open(folder, Session(served=True))
    with Workbench.open(folder) as bench:
        served = Served(bench.project.folder)
        with pytest.raises(ConfigError, match="no rules to check the run with"):
            bench.promote(runs[0])
        failed = bench.promote(runs[0], ("HitRate@1>=0.5", "nDCG@10>=0.5"), OPEN)
        assert (failed.outcome.state, failed.changed) == ("untrusted", False)
        assert served.current() is None
        found = bench.promote(runs[0], RULE, replace(OPEN, reason="the first", by="ann"))
        assert found.changed
        change = found.served
        assert change is not None
        assert (change.number, change.replaced, change.run) == (1, None, runs[0])
        assert (change.by, change.reason) == ("ann", "the first")
        assert change.gate["outcome"] == "passed"
        assert "only the rules" in found.notes[0]


def test_worse_than_what_is_served_is_not_promoted(
    folder: Path, runs: list[str], made: tuple[Path, list[str], str]
) -> None:
    """Rules without a baseline are held beside not being worse; equal rows prove no gain."""
    first, second, third, fourth, _ = runs
    with Workbench.open(folder) as bench:
        bench.promote(first, RULE, OPEN)
        worse = bench.promote(made[2], (), OPEN)
        assert (worse.outcome.state, worse.changed, worse.baseline) == ("failed", False, first)
        assert worse.served is not None
        assert worse.served.run == first
        assert bench.promote(first, (), OPEN).outcome.state == "failed"
        same = bench.promote(first, NEAR, OPEN)
        assert (same.outcome.state, same.changed) == ("passed", False)
        assert "served already, as number 1" in same.notes[-1]
        with pytest.raises(ConfigError, match="no rules"):
            bench.promote(made[2], (), ALONE)
        found = bench.promote(second, RULE, OPEN)
        rules = [check.rule for check in found.outcome.checks]
        assert rules == ["HitRate@1>=0.5", "HitRate@1>=baseline"]
        assert not found.changed
        assert [change.run for change in Served(bench.project.folder).history()] == [first]
        assert bench.promote(second, NEAR, OPEN).changed
        found = bench.promote(third, NEAR, OPEN)
        assert [check.rule for check in found.outcome.checks] == list(NEAR)
        assert found.baseline == second
        assert not bench.promote(fourth, NEAR, replace(OPEN, dry_run=True)).changed
        named = bench.promote(fourth, NEAR, replace(OPEN, baseline=first))
        assert (named.baseline, named.changed) == (first, True)


def test_back_goes_to_the_one_before_and_says_so(folder: Path, runs: list[str]) -> None:
    with Workbench.open(folder) as bench:
        with pytest.raises(ConfigError, match="no earlier configuration to return to"):
            bench.promote_back("why not")
        for run in runs[:3]:
            bench.promote(run, RULE, ALONE)
        with pytest.raises(ConfigError, match="needs a reason"):
            bench.promote_back(" ")
        assert bench.promote_back("too dear", "ann").number == 2
        assert bench.promote_back("too slow").number == 1  # and not 3 again
        with pytest.raises(ConfigError, match="1 was the first"):
            bench.promote_back("further")
        history = Served(bench.project.folder).history()
        assert [(c.action, c.number, c.replaced) for c in history] == [
            ("promote", 1, None),
            ("promote", 2, 1),
            ("promote", 3, 2),
            ("back", 2, 3),
            ("back", 1, 2),
        ]
        assert (history[3].by, history[3].reason, history[3].run) == ("ann", "too dear", runs[1])
        # after a way back the next number is new, and the one before it is what was served
        assert bench.promote(runs[2], RULE, ALONE).served.number == 4  # type: ignore[union-attr]
        assert bench.promote_back("again").number == 1
    with Workbench.open(folder, Session(served=True)) as bench:
        assert bench.project.settings.retrieve.top_k == 3


def test_a_snapshot_that_somebody_edited_is_not_served(folder: Path, runs: list[str]) -> None:
    with Workbench.open(folder) as bench:
        bench.promote(runs[0], RULE, OPEN)
        bench.promote(runs[1], RULE, ALONE)
    path = folder / ".ragwright" / "data" / "served" / "0002" / "settings.yaml"
    path.write_text(path.read_text().replace("top_k: 4", "top_k: 5"))
    changed = r"changed after it was promoted: settings\.yaml has changed"
    with pytest.raises(StoreError, match=changed):
        Workbench.open(folder, Session(served=True))
    with Workbench.open(folder) as bench:
        assert bench.promote_back("edited").number == 1
    Workbench.open(folder, Session(served=True)).close()


def test_runs_that_say_nothing_of_their_settings_are_refused(folder: Path, runs: list[str]) -> None:
    rows = [{"user_input": f"q{n}", "response": "a", "reference": "a"} for n in range(8)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Workbench.open(folder) as bench:
        _, summary = bench.score(str(folder / "rows.jsonl"), "ExactMatch")
        with pytest.raises(ConfigError, match=r"the settings of the run .* are unknown"):
            bench.promote(summary.run, ("ExactMatch>=0.5",), OPEN)
        with pytest.raises(StoreError, match="unknown run"):
            bench.promote("nobody", ("ExactMatch>=0.5",), OPEN)
        bench.project.runs.finish(runs[0], "stopped")
        with pytest.raises(ConfigError, match="did not end"):
            bench.promote(runs[0], RULE, OPEN)


def promoting(folder: Path, run: str, barrier: Any, told: Any) -> None:
    with Workbench.open(folder) as bench:
        barrier.wait()
        found = bench.promote(run, NEAR, OPEN)
        told.put((run, found.changed, found.baseline))


@pytest.mark.slow
def test_two_at_once_do_not_interleave(folder: Path, runs: list[str]) -> None:
    with Workbench.open(folder) as bench:
        bench.promote(runs[0], RULE, OPEN)
    barrier, told = context.Barrier(2), context.Queue()
    workers = [started(promoting, folder, run, barrier, told) for run in runs[1:3]]
    found = {run: (changed, baseline) for run, changed, baseline in (told.get() for _ in workers)}
    for worker in workers:
        worker.join()
    with Workbench.open(folder) as bench:
        history = Served(bench.project.folder).history()
    assert [change.number for change in history] == [1, 2, 3]
    assert all(changed for changed, _ in found.values())
    # each was held against the one promoted before it, whichever that was
    chain = [change.run for change in history]
    assert [found[run][1] for run in chain[1:]] == chain[:-1]


def test_who_waits_too_long_is_told_for_whom(
    folder: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a folder that cannot be written is said."""
    monkeypatch.setattr("ragwright.project._served._WAIT", 0.1)
    with Workbench.open(folder) as bench:
        served = Served(bench.project.folder)
        with served.changing("promote one"):
            with pytest.raises(StoreBusyError) as caught:
                bench.promote(runs[0], RULE, OPEN)
            with pytest.raises(StoreBusyError, match="is being changed by 'promote one'"):
                bench.promote_back("why not")
        said = "the served configuration is being changed by 'promote one', process"
        assert f"{said} {os.getpid()} on " in str(caught.value)
        assert served.history() == ()
        assert bench.promote(runs[0], RULE, OPEN).changed
        shutil.rmtree(served.folder)
        (served.folder / "lock").mkdir(parents=True)
        with pytest.raises(StoreError, match="configuration cannot be changed: ") as refused:
            bench.promote_back("why not")
        assert refused.value.where == str(served.folder)


@pytest.mark.parametrize("full", ["copy", "history"])
def test_a_full_disk_changes_nothing_that_is_served(
    folder: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """The settings' copy cannot be written, or the row in the history."""

    def no_room(*_: Any, **__: Any) -> None:
        if full == "copy":
            raise OSError(errno.ENOSPC, "No space left on device")
        raise StoreFullError("the disk is full")

    with Workbench.open(folder) as bench:
        before = bench.promote(runs[0], RULE, OPEN).served
        served = Served(bench.project.folder)
        with monkeypatch.context() as patch:
            if full == "copy":
                patch.setattr("ragwright.project._served.replace_text", no_room)
            else:
                patch.setattr(Ledger, "write", no_room)
            with pytest.raises(StoreError, match=r"No space left on device|the disk is full"):
                bench.promote(runs[1], NEAR, OPEN)
        assert served.current() == before
        assert bench.promote(runs[1], NEAR, OPEN).changed
        assert [change.number for change in served.history()] == [1, 2]
        served.snapshot(2)
    assert not [*served.folder.glob("*.new")]


def promoting_for_ever(tell: Connection, folder: Path, runs: list[str]) -> None:
    with Workbench.open(folder) as bench:
        while True:
            for run in runs:
                served = bench.promote(run, RULE, OPEN).served
                assert served is not None
                tell.send(served.number)


@pytest.mark.slow
def test_a_promotion_that_is_killed_is_whole_or_not_there(folder: Path, runs: list[str]) -> None:
    for pause in (0.0, 0.01, 0.03, 0.06):
        with child(promoting_for_ever, folder, runs[:2]) as told:
            last = [told.recv() for _ in range(2)][-1]
            time.sleep(pause)
        with Workbench.open(folder, Session(served=True)) as bench:
            served = Served(bench.project.folder)
            numbers = [change.number for change in served.history()]
            assert numbers == list(range(1, len(numbers) + 1))
            assert numbers[-1] >= last
            for number in numbers:
                served.snapshot(number)


# -- what a configuration is -----------------------------------------------------------------------

RECORDS = {
    "tags.yaml": "tags:\n  urgent_tone: now\n  calm_tone: soon\n",
    "rules.yaml": "length_groups: {brief: 60, full: null}\n"
    "contradictions:\n  - {name: mixed, tags: [urgent_tone, calm_tone]}\n",
    "rollups.yaml": "client: {names: {Jane Doe: [Team Doe]}}\nbiographies: ../people/bios.csv\n",
    "text_formats/plain.yaml": FORMAT.format("A"),
    "../people/bios.csv": "name,biography\nJane Doe,A nurse.\n",
}
"""Declarations of records, by path from their folder."""
CHANGED = {
    "tags.yaml": "tags: {}\n",
    "rules.yaml": "length_groups: {tiny: 9}\n",
    "rollups.yaml": "client: {names: {John Roe: [Team Doe]}}\n",
    "text_formats/plain.yaml": FORMAT.format("Another"),
    "../people/bios.csv": "name,biography\nJane Doe,A judge.\n",
}
OWN = {
    "prompts/own.yaml": "parts: {role: You are the first.}\n",
    "personas/p.yaml": "name: p\naudience: first\n",
}
PLAIN_FORMAT = "records: {format: plain}\nprompt: {template: prompts/own.yaml}\n"


@pytest.fixture(scope="module")
def declaring(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with a template, a persona and declarations of records, and a run of it."""
    folder = MakeProject(tmp_path_factory.mktemp("declared"))(PLAIN_FORMAT, **DOCS)
    write_files(folder, OWN)
    (folder / "people").mkdir()
    (folder / "records").mkdir()
    write_files(folder / "records", RECORDS)
    return folder, measured(folder)


@pytest.fixture
def declared(declaring: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    return Path(shutil.copytree(declaring[0], tmp_path / "project")), declaring[1]


def known_files(bench: Workbench) -> set[str]:
    return set(configuration_of(bench.project.folder, bench.project.settings).files)


@pytest.mark.slow
def test_what_is_served_stays_whatever_becomes_of_the_project(declared: tuple[Path, str]) -> None:
    folder, run = declared
    with Workbench.open(folder) as bench:
        assert bench.promote(run, RULE, OPEN).changed
        kept, _ = Served(bench.project.folder).snapshot(1)
        working = origin_of(bench.project)
    assert working.served == 1
    records = {"records/rules.yaml", "records/rollups.yaml", "records/text_formats/plain.yaml"}
    assert set(kept.files) == {*records, "people/bios.csv", *OWN}
    settings = "retrieve: {top_k: 9}\nbudget: {concurrency: 3}\nrecords: {format: message}\n"
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{settings}")
    write_files(folder, {name: text.replace("first", "second") for name, text in OWN.items()})
    write_files(folder, {"personas/q.yaml": "name: q\n"})
    message = {"text_formats/message.yaml": FORMAT.format("Another")}
    write_files(folder / "records", {**CHANGED, **message})
    with Workbench.open(folder, Session(served=True)) as bench:
        project, plan = bench.project, draft_plan(bench.project)
        assert project.settings.retrieve.top_k == 5
        assert "first" in Path(project.settings.prompt.template).read_text()
        assert project.persona("p").audience == "first"
        assert "q" not in project.personas
        assert project.settings.budget.concurrency == 3  # what a session may spend is not served
        assert origin_of(project).served == 1
        assert origin_of(project).configuration == working.configuration
    assert [group.name for group in plan.rules.length_groups] == ["brief", "full"]
    assert plan.rollups.canonical("team doe") == "Jane Doe"
    assert plan.rollups.biography("Jane Doe") == "A nurse."
    assert plan.format.request({"ask_type": "gift"}) == "A gift"
    with Workbench.open(folder, Session(("retrieve.top_k=4",), served=True)) as bench:
        assert bench.project.settings.retrieve.top_k == 4
        assert origin_of(bench.project).served is None
    with Workbench.open(folder) as bench:
        assert bench.project.settings.retrieve.top_k == 9
        assert bench.project.persona("p").audience == "second"
        assert draft_plan(bench.project).format.request({"ask_type": "gift"}) == "Another gift"
        assert origin_of(bench.project).served is None


def test_a_changed_declaration_is_another_configuration(
    declared: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose files have changed is refused by name, however the project is reached."""
    folder, run = declared
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    with Workbench.open("..") as bench:
        assert "records/rules.yaml" in known_files(bench)
    for name, text in CHANGED.items():
        write_files(folder / "records", {name: text})
        with Workbench.open(folder) as bench:
            if name == "tags.yaml":  # what records are tagged with is theirs, not the drafts'
                assert bench.promote(run, RULE, replace(OPEN, dry_run=True)).outcome
            else:
                with pytest.raises(ConfigError, match="measured with other files"):
                    bench.promote(run, RULE, OPEN)
        write_files(folder / "records", {name: RECORDS[name]})
    write_files(folder, {"prompts/own.yaml": "parts: {role: Second.}\n"})
    (folder / "personas" / "p.yaml").unlink()
    with Workbench.open(folder) as bench:
        with pytest.raises(ConfigError) as error:
            bench.promote(run, RULE, OPEN)
        assert "personas/p.yaml no longer exists, prompts/own.yaml has changed" in error.value.what
        assert Served(bench.project.folder).history() == ()
        write_files(folder, OWN)
        assert bench.promote(run, RULE, OPEN).changed


def test_rollups_that_are_at_fault_are_told_by_those_who_draft(declared: tuple[Path, str]) -> None:
    folder, _ = declared
    for text in ("biographies: [1", "- biographies\n", "biographies: {a: b}\n"):
        write_files(folder / "records", {"rollups.yaml": text})
        with Workbench.open(folder) as bench:
            assert "people/bios.csv" not in known_files(bench)
            with pytest.raises(RecordsError, match="records/rollups"):
                draft_plan(bench.project)


def test_answers_scored_again_are_of_the_settings_they_were_written_under(tmp_path: Path) -> None:
    with ScriptedServer("Every two years [1].") as server:
        settings = f"answer: {{model: '{server.url}#m'}}\n"
        with Workbench.open(MakeProject(tmp_path)(settings, **DOCS)) as bench:
            bench.ingest()
            rows = tuple(replace(row, reference="two years", reference_ids={}) for row in ROWS)
            how = EvaluationOptions(answers=True)
            _, written = bench.evaluate(Testset("set", rows), "TokenF1", how)
            _, again = bench.score(written.run, "Contains")
            found = bench.promote(again.run, ("Contains>=0.5",), OPEN)
            assert found.changed
            assert found.served is not None
            own = configuration_of(bench.project.folder, bench.project.settings)
            assert found.served.configuration == own.hash


@pytest.mark.slow
def test_a_run_over_served_texts_promotes_what_they_were_drafted_under(folder: Path) -> None:
    for k in (3, 4):
        with Workbench.open(folder, Session((f"retrieve.top_k={k}",))) as bench:
            for topic in range(8):
                request = replace(REQUEST, topics=(f"topic {topic}",))
                texts = ["the text of record:1", "of record:1"]
                number = save_drafts(bench.project, drafted(texts, ("record:1",), request))
                name = bench.outputs.batch(number).configuration
            sampling = OutputSample(OutputQuery(configuration=name))
            _, summary, _ = evaluate_outputs(bench.project, "KPrecision", sampling)
            found = bench.promote(summary.run, ("KPrecision>=0.5",), ALONE)
            assert found.changed, found
    with Workbench.open(folder, Session(served=True)) as bench:
        assert bench.project.settings.retrieve.top_k == 4
        assert save_drafts(bench.project, drafted()) == 17
        assert bench.outputs.batch(17).served == 2
        _, mixed, _ = evaluate_outputs(bench.project, "KPrecision", OutputSample())
        with pytest.raises(ConfigError, match=r"the settings of the run .* are unknown"):
            bench.promote(mixed.run, ("KPrecision>=0.5",), OPEN)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A section with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def exactly(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A condition with all of these fields."""
    made = {k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in fields.items()}
    return st.fixed_dictionaries(made)


VALUES = st.text("ab: #'\"\n1é", min_size=1) | st.integers(-9, 9)
NAMED = exactly(
    field=st.sampled_from(["party", "on"]), values=st.lists(VALUES, min_size=1, max_size=3)
)
SOFT = exactly(
    field="topic",
    values=st.lists(st.sampled_from(["no", "2026-01-01", "1e3"])),
    low=st.none() | st.just("a"),
    weight=st.floats(0, 5),
)
PLAIN = some(
    chunk=some(size=st.integers(60, 900)),
    retrieve=some(
        top_k=st.integers(1, 50),
        keyword_share=st.floats(0, 1),
        threshold=st.none() | st.floats(-1, 1),
        weights=some(dense=st.floats(0, 9)),
        filters=st.lists(NAMED | exactly(field="year", low=st.integers(1, 3000)), max_size=2),
        soft=st.lists(SOFT, max_size=2),
    ),
    prompt=some(replace=st.dictionaries(st.just("role"), st.text(max_size=20))),
    models=st.dictionaries(
        st.sampled_from(["openai:x", "http://h/v1#y"]), some(price_in=st.floats(0, 9)), max_size=2
    ),
)


@pytest.mark.slow
@given(PLAIN)
def test_settings_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, plain: dict[str, Any]
) -> None:
    """Whatever a project file says, the snapshot of it says the same."""
    folder = MakeProject(tmp_path_factory.mktemp("p"))(yaml.safe_dump(plain) if plain else "")
    with Workbench.open(folder) as bench:
        kept = configuration_of(bench.project.folder, bench.project.settings)
        text = yaml.safe_dump(json.loads(json.dumps(kept.body())))
        served = {name: kept.settings.get(name) or {} for name in SERVED_SECTIONS}
        assert yaml.safe_load(text) == kept.body()
        again = load_settings(bench.project.folder.file, served=served)
        with Workbench(Project(bench.project.folder, again)) as other:
            assert other.project.settings == bench.project.settings
            assert configuration_of(other.project.folder, other.project.settings).hash == kept.hash
