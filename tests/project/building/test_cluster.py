"""Ingest on a cluster of two node processes gives what ingest here gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ingest_cluster
import pytest
from benchmarks.data_sets import DATA
from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.core import ConfigError, MissingExtraError

DOCUMENTS = DATA / "documents" / "sources"


@pytest.fixture(scope="module")
def found(
    needs_ray: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What ingests on the cluster made, and how they failed: those that chosen tests look at."""
    here = str(Path(ingest_cluster.__file__).parent)
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    work = tmp_path_factory.mktemp("cluster")
    chosen = [item for item in request.session.items if item.path == request.path]
    reading = {item.get_closest_marker("needs_data") is not None for item in chosen}
    asked = ["documents"] * (True in reading) + ["written"] * (False in reading)
    done = subprocess.run(
        [sys.executable, ingest_cluster.__file__, str(work), str(DOCUMENTS), *asked],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


@pytest.mark.slow
@pytest.mark.needs_data
def test_real_documents_are_equal(found: Mapping[str, Any]) -> None:
    documents = found["documents"]
    assert documents["different"] == {}
    assert documents["report"]["documents"]["added"] > 30
    assert documents["chunks"] > 60
    assert documents["still"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["own", "served"])
def test_documents_chunks_terms_and_reports_are_equal(found: Mapping[str, Any], case: str) -> None:
    assert found[case]["different"] == {}
    assert (found[case]["vectors"] or 0.0) < 1e-6
    assert found[case]["still"]


@pytest.mark.slow
def test_faults_are_reported_as_locally_and_a_server_is_asked_by_the_driver_alone(
    found: Mapping[str, Any],
) -> None:
    report = found["own"]["report"]
    assert report["documents"]["added"] == 598
    assert [Path(one["source"]).stem for one in report["failures"]] == ["n008", "n009"]
    assert report["documents"]["failed"] == 2
    again = found["own"]["again"]["documents"]
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, 598)
    assert found["served"]["report"]["chunks"]["embedded"] == 40
    assert found["served"]["again"]["chunks"]["embedded"] == 0
    assert found["served"]["requests"] == 4  # two ingests: a probe, and all texts in one request


@pytest.mark.slow
def test_a_worker_without_the_model_is_named_and_what_a_killed_driver_committed_stays(
    found: Mapping[str, Any],
) -> None:
    assert found["missing"]["kind"] == "EngineError"
    for said in ("letters", "node ", "copy the model's files"):
        assert said in found["missing"]["said"]
    killed = found["killed"]
    documents = killed["documents"]
    assert 0 < killed["kept"] <= documents["unchanged"] < 2000
    assert documents["added"] + documents["unchanged"] == 2000
    assert killed["equal"]


def test_without_the_extra_its_install_line_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    folder = MakeProject(tmp_path)("ingest: {engine: ray}\n")
    with Workbench.open(folder) as bench, pytest.raises(MissingExtraError) as raised:
        bench.ingest()
    assert "ragwright[cluster]" in (raised.value.hint or "")


@pytest.mark.needs_ray
def test_a_cluster_needs_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    session = Session(("ingest.engine=ray",))
    folder = MakeProject(tmp_path)()
    with Workbench.open(folder, session) as bench, pytest.raises(ConfigError) as raised:
        bench.ingest()
    assert raised.value.where == "RAY_ADDRESS"
