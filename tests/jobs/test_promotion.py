"""Promotion: what is served changes only through the gate, whole, and can be gone back on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from children import child, context, started
from drafted import REQUEST, drafted
from hypothesis import given, settings, strategies as st
from small_project import MakeProject

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
from ragwright.project import (
    SERVED_SECTIONS,
    Project,
    Served,
    _served,
    configuration_of,
    load_settings,
)
from ragwright.testing import ScriptedServer
from ragwright.testsets import Testset

PARTS = ("brake", "coolant", "filter", "belt", "battery", "tyre", "wiper", "lamp")
DOCS = {f"{part}.md": f"# The {part}\n\nThe {part} is changed every two years.\n" for part in PARTS}
ROWS = tuple(
    Row(f"q{n}", f"When is the {part} changed?", reference_ids={f"{part}.md": 1})
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


Make: TypeAlias = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda settings="": MakeProject(tmp_path)(settings, **DOCS)


def measured(folder: Path, *overrides: str, name: str = "", rows: tuple[Row, ...] = ROWS) -> str:
    """The run of an evaluation under some settings."""
    with Workbench.open(folder, Session(overrides)) as bench:
        bench.ingest()
        documents = {Path(d.id).name: d.id for d in bench.documents()}
        known = tuple(
            replace(row, reference_ids={documents[d]: 1 for d in row.reference_ids}) for row in rows
        )
        _, summary = bench.evaluate(
            Testset("set", known), "HitRate@1", EvaluationOptions(name=name)
        )
        return summary.run


@pytest.mark.slow
def test_nothing_is_served_before_something_is_promoted(make: Make) -> None:
    folder = make()
    with pytest.raises(ConfigError, match="no configuration is served"):
        Workbench.open(folder, Session(served=True))
    run = measured(folder)
    with Workbench.open(folder) as bench:
        with pytest.raises(ConfigError, match="no rules to check the run with"):
            bench.promote(run)
        failed = bench.promote(run, ("HitRate@1>=0.5", "nDCG@10>=0.5"), OPEN)
        assert (failed.outcome.state, failed.changed) == ("untrusted", False)
        assert Served(bench.project.folder).current() is None
        found = bench.promote(run, RULE, replace(OPEN, reason="the first", by="ann"))
    assert found.changed
    assert found.served is not None
    assert (found.served.number, found.served.replaced, found.served.run) == (1, None, run)
    assert (found.served.by, found.served.reason) == ("ann", "the first")
    assert found.served.gate["outcome"] == "passed"
    assert "only the rules" in found.notes[0]


@pytest.mark.slow
def test_what_is_served_stays_whatever_becomes_of_the_project(make: Make) -> None:
    folder = make("retrieve: {top_k: 3}\nprompt: {template: prompts/own.yaml}\n")
    (folder / "prompts").mkdir()
    (folder / "prompts" / "own.yaml").write_text("parts: {role: You are the first.}\n")
    (folder / "personas").mkdir()
    (folder / "personas" / "p.yaml").write_text("name: p\naudience: first\n")
    format_file = folder / "records" / "text_formats" / "message.yaml"
    format_file.parent.mkdir(parents=True)
    format_file.write_text(FORMAT.format("A"))
    run = measured(folder)
    with Workbench.open(folder) as bench:
        bench.promote(run, RULE, OPEN)
        working = origin_of(bench.project)
    assert working.served == 1
    make("retrieve: {top_k: 9}\nbudget: {concurrency: 3}\n")
    (folder / "prompts" / "own.yaml").write_text("parts: {role: You are the second.}\n")
    (folder / "personas" / "p.yaml").write_text("name: p\naudience: second\n")
    (folder / "personas" / "q.yaml").write_text("name: q\n")
    format_file.write_text(FORMAT.format("Another"))
    with Workbench.open(folder, Session(served=True)) as bench:
        assert bench.project.settings.retrieve.top_k == 3
        assert "first" in Path(bench.project.settings.prompt.template).read_text()
        assert bench.project.persona("p").audience == "first"
        assert "q" not in bench.project.personas
        assert draft_plan(bench.project).format.request({"ask_type": "first"}) == "A first"
        assert (
            bench.project.settings.budget.concurrency == 3
        )  # what a session may spend is not served
        assert origin_of(bench.project).served == 1
        assert origin_of(bench.project).configuration == working.configuration
    with Workbench.open(folder, Session(("retrieve.top_k=4",), served=True)) as bench:
        assert bench.project.settings.retrieve.top_k == 4
        assert origin_of(bench.project).served is None
    with Workbench.open(folder) as bench:
        assert bench.project.settings.retrieve.top_k == 9
        assert bench.project.persona("p").audience == "second"
        assert draft_plan(bench.project).format.request({"ask_type": "first"}) == "Another first"
        assert origin_of(bench.project).served is None


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


def declare(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / "records" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_what_drafts_are_made_by_is_served_as_it_was(make: Make) -> None:
    folder = make("records: {format: plain}\n")
    declare(folder, RECORDS)
    run = measured(folder)
    with Workbench.open(folder) as bench:
        made = bench.promote(run, RULE, OPEN).served
        kept, _ = Served(bench.project.folder).snapshot(1)
    assert made is not None
    assert set(kept.files) == {
        "records/rules.yaml",
        "records/rollups.yaml",
        "records/text_formats/plain.yaml",
        "people/bios.csv",
    }
    make("records: {format: message}\n")
    declare(folder, CHANGED)
    with Workbench.open(folder, Session(served=True)) as bench:
        plan = draft_plan(bench.project)
        assert origin_of(bench.project).served == 1
    assert [group.name for group in plan.rules.length_groups] == ["brief", "full"]
    assert plan.rollups.canonical("team doe") == "Jane Doe"
    assert plan.rollups.biography("Jane Doe") == "A nurse."
    assert plan.format.request({"ask_type": "gift"}) == "A gift"


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_changed_declaration_is_another_configuration(make: Make, name: str) -> None:
    folder = make("records: {format: plain}\n")
    declare(folder, RECORDS)
    run = measured(folder)
    declare(folder, {name: CHANGED[name]})
    with Workbench.open(folder) as bench:
        if name == "tags.yaml":  # what records are tagged with is theirs, not the drafts'
            assert bench.promote(run, RULE, OPEN).changed
            return
        with pytest.raises(ConfigError, match="measured with other files"):
            bench.promote(run, RULE, OPEN)


def test_rollups_that_are_at_fault_are_told_by_those_who_draft(make: Make) -> None:
    folder = make("records: {format: plain}\n")
    declare(folder, RECORDS)
    for text in ("biographies: [1", "- biographies\n", "biographies: {a: b}\n"):
        declare(folder, {"rollups.yaml": text})
        with Workbench.open(folder) as bench:
            assert (
                "people/bios.csv"
                not in configuration_of(bench.project.folder, bench.project.settings).files
            )
            with pytest.raises(RecordsError, match="records/rollups"):
                draft_plan(bench.project)


@pytest.mark.slow
def test_deeply_nested_rollups_do_not_end_the_process(make: Make) -> None:
    """In a process of its own: an overflow of the C stack is nothing that Python can catch."""
    folder = make("records: {format: plain}\n")
    declare(folder, {**RECORDS, "rollups.yaml": f"biographies: {'[' * 200_000}"})
    script = (
        "from ragwright import Workbench\n"
        "from ragwright.project import configuration_of\n"
        f"with Workbench.open({str(folder)!r}) as bench:\n"
        "    print(len(configuration_of(bench.project.folder, bench.project.settings).files))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0


def test_files_are_known_however_the_project_is_reached(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make()
    declare(folder, RECORDS)
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    with Workbench.open("..") as bench:
        assert (
            "records/rules.yaml"
            in configuration_of(bench.project.folder, bench.project.settings).files
        )


def test_a_run_whose_files_have_changed_is_refused_by_name(make: Make) -> None:
    folder = make("prompt: {template: prompts/own.yaml}\n")
    (folder / "prompts").mkdir()
    template = folder / "prompts" / "own.yaml"
    template.write_text("parts: {role: First.}\n")
    (folder / "personas").mkdir()
    (folder / "personas" / "p.yaml").write_text("name: p\n")
    run = measured(folder)
    template.write_text("parts: {role: Second.}\n")
    (folder / "personas" / "p.yaml").unlink()
    with Workbench.open(folder) as bench:
        with pytest.raises(ConfigError) as error:
            bench.promote(run, RULE, OPEN)
        assert "personas/p.yaml no longer exists, prompts/own.yaml has changed" in error.value.what
        assert Served(bench.project.folder).history() == ()
        template.write_text("parts: {role: First.}\n")
        (folder / "personas" / "p.yaml").write_text("name: p\n")
        assert bench.promote(run, RULE, OPEN).changed


def test_worse_than_what_is_served_is_not_promoted(make: Make) -> None:
    folder = make()
    good = measured(folder, name="good")
    bad = measured(folder, "retrieve.max_query_chars=4", name="bad")
    with Workbench.open(folder) as bench:
        bench.promote(good, RULE, OPEN)
        worse = bench.promote(bad, (), OPEN)
        assert (worse.outcome.state, worse.changed, worse.baseline) == ("failed", False, good)
        assert worse.served is not None
        assert worse.served.run == good
        assert bench.promote(good, (), OPEN).outcome.state == "failed"  # equal rows prove no gain
        same = bench.promote(good, NEAR, OPEN)
        assert (same.outcome.state, same.changed) == ("passed", False)
        assert "served already, as number 1" in same.notes[-1]
        forced = replace(OPEN, rules_alone=True)
        with pytest.raises(ConfigError, match="no rules"):
            bench.promote(bad, (), forced)
        assert [change.run for change in Served(bench.project.folder).history()] == [good]


def test_rules_without_a_baseline_are_held_beside_not_worse(make: Make) -> None:
    folder = make()
    first = measured(folder)
    second = measured(folder, "retrieve.top_k=4")
    with Workbench.open(folder) as bench:
        bench.promote(first, RULE, OPEN)
        found = bench.promote(second, RULE, OPEN)
        assert [check.rule for check in found.outcome.checks] == [
            "HitRate@1>=0.5",
            "HitRate@1>=baseline",
        ]
        assert not found.changed  # equal rows prove no gain
        assert bench.promote(second, NEAR, OPEN).changed
        third = measured(folder, "retrieve.top_k=6")
        found = bench.promote(third, NEAR, OPEN)
        assert [check.rule for check in found.outcome.checks] == list(NEAR)
        assert found.baseline == second
        fourth = measured(folder, "retrieve.top_k=7")
        assert not bench.promote(fourth, NEAR, replace(OPEN, dry_run=True)).changed
        named = bench.promote(fourth, NEAR, replace(OPEN, baseline=first))
        assert (named.baseline, named.changed) == (first, True)


def test_back_goes_to_the_one_before_and_says_so(make: Make) -> None:
    folder = make()
    runs = [measured(folder, f"retrieve.top_k={k}") for k in (3, 4, 5)]
    with Workbench.open(folder) as bench:
        with pytest.raises(ConfigError, match="no earlier configuration to return to"):
            bench.promote_back("why not")
        for run in runs:
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


def test_a_snapshot_that_somebody_edited_is_not_served(make: Make) -> None:
    folder = make()
    first, second = measured(folder), measured(folder, "retrieve.top_k=4")
    with Workbench.open(folder) as bench:
        bench.promote(first, RULE, OPEN)
        bench.promote(second, RULE, ALONE)
    path = folder / ".ragwright" / "data" / "served" / "0002" / "settings.yaml"
    path.write_text(path.read_text().replace("top_k: 4", "top_k: 5"))
    with pytest.raises(
        StoreError, match=r"changed after it was promoted: settings\.yaml has changed"
    ):
        Workbench.open(folder, Session(served=True))
    with Workbench.open(folder) as bench:
        assert bench.promote_back("edited").number == 1
    Workbench.open(folder, Session(served=True)).close()


def test_runs_that_say_nothing_of_their_settings_are_refused(make: Make) -> None:
    folder = make()
    rows = [{"user_input": f"q{n}", "response": "a", "reference": "a"} for n in range(8)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Workbench.open(folder) as bench:
        _, summary = bench.score(str(folder / "rows.jsonl"), "ExactMatch")
        with pytest.raises(ConfigError, match=r"the settings of the run .* are unknown"):
            bench.promote(summary.run, ("ExactMatch>=0.5",), OPEN)
        with pytest.raises(StoreError, match="unknown run"):
            bench.promote("nobody", ("ExactMatch>=0.5",), OPEN)
        run = measured(folder)
        bench.project.runs.finish(run, "stopped")
        with pytest.raises(ConfigError, match="did not end"):
            bench.promote(run, RULE, OPEN)


def test_answers_scored_again_are_of_the_settings_they_were_written_under(
    make: Make,
) -> None:
    with ScriptedServer(lambda _: "Every two years [1].") as server:
        folder = make(f"answer: {{model: '{server.url}#m'}}\n")
        with Workbench.open(folder) as bench:
            bench.ingest()
            rows = tuple(replace(row, reference="two years", reference_ids={}) for row in ROWS)
            how = EvaluationOptions(answers=True)
            _, written = bench.evaluate(Testset("set", rows), "TokenF1", how)
            _, again = bench.score(written.run, "Contains")
            found = bench.promote(again.run, ("Contains>=0.5",), OPEN)
            assert found.changed
            assert found.served is not None
            assert (
                found.served.configuration
                == configuration_of(bench.project.folder, bench.project.settings).hash
            )


@pytest.mark.slow
def test_a_run_over_served_texts_promotes_what_they_were_drafted_under(make: Make) -> None:
    folder = make()
    for k in (3, 4):
        with Workbench.open(folder, Session((f"retrieve.top_k={k}",))) as bench:
            bench.ingest()
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


def promoting(folder: Path, run: str, barrier: Any, told: Any) -> None:
    with Workbench.open(folder) as bench:
        barrier.wait()
        found = bench.promote(run, NEAR, OPEN)
        told.put((run, found.changed, found.baseline))


@pytest.mark.slow
def test_two_at_once_do_not_interleave(make: Make) -> None:
    folder = make()
    first = measured(folder)
    runs = [measured(folder, f"retrieve.top_k={k}") for k in (3, 4)]
    with Workbench.open(folder) as bench:
        bench.promote(first, RULE, OPEN)
    barrier, told = context.Barrier(len(runs)), context.Queue()
    workers = [started(promoting, folder, run, barrier, told) for run in runs]
    found = {run: (changed, baseline) for run, changed, baseline in (told.get() for _ in runs)}
    for worker in workers:
        worker.join()
    history = Served(Workbench.open(folder).project.folder).history()
    assert [change.number for change in history] == [1, 2, 3]
    assert all(changed for changed, _ in found.values())
    # each was held against the one promoted before it, whichever that was
    chain = [change.run for change in history]
    assert [found[run][1] for run in chain[1:]] == chain[:-1]


def test_who_waits_too_long_is_told_for_whom(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make()
    run = measured(folder)
    monkeypatch.setattr(_served, "_WAIT", 0.1)
    with Workbench.open(folder) as bench:
        with Served(bench.project.folder).changing("promote one"):
            with pytest.raises(StoreBusyError) as caught:
                bench.promote(run, RULE, OPEN)
            with pytest.raises(StoreBusyError, match="is being changed by 'promote one'"):
                bench.promote_back("why not")
        said = (
            f"the served configuration is being changed by 'promote one', process {os.getpid()} on "
        )
        assert said in str(caught.value)
        assert Served(bench.project.folder).history() == ()
        assert bench.promote(run, RULE, OPEN).changed


def test_a_folder_that_cannot_be_written_is_said(make: Make) -> None:
    with Workbench.open(make()) as bench:
        lock = Served(bench.project.folder).folder / "lock"
        lock.mkdir(parents=True)
        with pytest.raises(
            StoreError, match="the served configuration cannot be changed: "
        ) as caught:
            bench.promote_back("why not")
    assert caught.value.where == str(lock.parent)


@pytest.mark.parametrize("full", ["copy", "history"])
def test_a_full_disk_changes_nothing_that_is_served(
    make: Make, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """The settings' copy cannot be written, or the row in the history."""
    folder = make()
    first, second = measured(folder), measured(folder, "retrieve.top_k=3")

    def no_room(*_: Any, **__: Any) -> None:
        if full == "copy":
            raise OSError(errno.ENOSPC, "No space left on device")
        raise StoreFullError("the disk is full")

    with Workbench.open(folder) as bench:
        before = bench.promote(first, RULE, OPEN).served
        served = Served(bench.project.folder)
        if full == "copy":
            monkeypatch.setattr(_served, "replace_text", no_room)
        else:
            monkeypatch.setattr(Ledger, "write", no_room)
        with pytest.raises(StoreError, match=r"No space left on device|the disk is full"):
            bench.promote(second, NEAR, OPEN)
        monkeypatch.undo()
        assert served.current() == before
        assert bench.promote(second, NEAR, OPEN).changed
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
def test_a_promotion_that_is_killed_is_whole_or_not_there(make: Make) -> None:
    folder = make()
    runs = [measured(folder, f"retrieve.top_k={k}") for k in (3, 4)]
    last = 0
    for pause in (0.0, 0.01, 0.03, 0.06):
        with child(promoting_for_ever, folder, runs) as told:
            for _ in range(2):
                last = told.recv()
            time.sleep(pause)
        with Workbench.open(folder, Session(served=True)) as bench:
            history = Served(bench.project.folder).history()
            numbers = [change.number for change in history]
            assert numbers == list(range(1, len(numbers) + 1))
            assert numbers[-1] >= last
            for number in numbers:
                Served(bench.project.folder).snapshot(number)


PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "chunk": st.fixed_dictionaries({}, optional={"size": st.integers(60, 900)}),
        "retrieve": st.fixed_dictionaries(
            {},
            optional={
                "top_k": st.integers(1, 50),
                "keyword_share": st.floats(0, 1),
                "threshold": st.none() | st.floats(-1, 1),
                "weights": st.fixed_dictionaries({}, optional={"dense": st.floats(0, 9)}),
                "filters": st.lists(
                    st.one_of(
                        st.fixed_dictionaries(
                            {
                                "field": st.sampled_from(["party", "on"]),
                                "values": st.lists(
                                    st.text("ab: #'\"\n1é", min_size=1) | st.integers(-9, 9),
                                    min_size=1,
                                    max_size=3,
                                ),
                            }
                        ),
                        st.fixed_dictionaries(
                            {"field": st.just("year"), "low": st.integers(1, 3000)}
                        ),
                    ),
                    max_size=2,
                ),
                "soft": st.lists(
                    st.fixed_dictionaries(
                        {
                            "field": st.just("topic"),
                            "values": st.lists(st.sampled_from(["no", "2026-01-01", "1e3"])),
                            "low": st.none() | st.sampled_from(["a"]),
                            "weight": st.floats(0, 5),
                        }
                    ),
                    max_size=2,
                ),
            },
        ),
        "prompt": st.fixed_dictionaries(
            {}, optional={"replace": st.dictionaries(st.just("role"), st.text(max_size=20))}
        ),
        "models": st.dictionaries(
            st.sampled_from(["openai:x", "http://h/v1#y"]),
            st.fixed_dictionaries({}, optional={"price_in": st.floats(0, 9)}),
            max_size=2,
        ),
    },
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
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
