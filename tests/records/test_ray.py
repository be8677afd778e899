"""The cluster's engine, on a real cluster of two node processes in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import ray_cluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_ray]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the engines made of the same rows, and how the cluster's failed."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    work = tmp_path_factory.mktemp("cluster")
    done = subprocess.run(
        [sys.executable, ray_cluster.__file__, str(work)],
        env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "failed" not in made, made["failed"]
    return made


def test_a_refresh_on_the_cluster_equals_one_here(found: Mapping[str, Any]) -> None:
    compared = found["compared"]
    assert compared["equal"]
    same, report = compared["reports"]
    assert same, report
    assert compared["rows"]["bronze"] == ray_cluster.ROWS
    assert compared["hashes"] > 100
    assert compared["rows"]["gold"] > 100
    assert compared["rows"]["left_out"] > 0


def test_patterns_that_only_python_runs_work_there_too(found: Mapping[str, Any]) -> None:
    assert "sign ask" in found["compared"]["tags"]


def test_nothing_changed_is_nothing_written(found: Mapping[str, Any]) -> None:
    again = found["compared"]["again"]
    for table in ("bronze", "silver", "gold"):
        assert (again[table]["inserted"], again[table]["updated"]) == (0, 0)
        assert again[table]["unchanged"] == found["compared"]["rows"][table]


def test_outcomes_come_in_the_order_of_the_tasks(found: Mapping[str, Any]) -> None:
    failures = found["failures"]
    assert failures["keys"] == [str(n) for n in range(36)]
    assert failures["none"] == 0


def test_workers_send_no_usage_figures_and_open_no_store(found: Mapping[str, Any]) -> None:
    seen = [line.split() for line in found["failures"]["seen"]]
    assert len({process for process, *_ in seen}) == 2
    for _, switches, stores in seen:
        assert switches == "1,0,0"
        assert stores == "0"


def test_errors_of_the_house_come_back_as_themselves(found: Mapping[str, Any]) -> None:
    error = found["failures"]["house"]
    assert error["kind"] == "PatternError"
    for said in ("the pattern took too long", "where: row 7", "do: mend it"):
        assert said in error["said"]


def test_other_errors_come_back_with_the_trace_of_their_node(found: Mapping[str, Any]) -> None:
    error = found["failures"]["plain"]
    assert error["kind"] == "ZeroDivisionError"
    assert "ray_steps.py" in error["said"]


def test_an_error_that_cannot_travel_is_told(found: Mapping[str, Any]) -> None:
    assert "Odd" in found["failures"]["odd"]["said"]


def test_a_part_whose_worker_was_killed_is_begun_again(found: Mapping[str, Any]) -> None:
    assert found["failures"]["die_once"] == {"kind": "none", "said": "12"}


def test_a_part_that_kills_every_worker_ends_the_run(found: Mapping[str, Any]) -> None:
    error = found["killed"]
    assert error["kind"] == "EngineError"
    assert "3 workers died" in error["said"]


def test_closing_leaves_the_cluster_of_others(found: Mapping[str, Any]) -> None:
    assert found["still_there"] is True
    assert found["closed"]["kind"] == "EngineError"


def test_no_cluster_is_a_clear_error(found: Mapping[str, Any]) -> None:
    for case, words in {
        "unset": ("RAY_ADDRESS", "ray start --head"),
        "refused": ("no Ray cluster can be reached", "127.0.0.1:1"),
        "client": ("client protocol", "ray://127.0.0.1:10001"),
    }.items():
        assert found[case]["kind"] == "ConfigError"
        for word in words:
            assert word in found[case]["said"]
