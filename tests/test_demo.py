from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest
from command_line import ragwright
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def demo(command: list[str], folder: Path) -> str:
    left_out = ("_API_KEY", "PYTHONPATH")
    environment = {k: v for k, v in os.environ.items() if not k.endswith(left_out)}
    done = subprocess.run(
        [*command, "demo"], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


NO_ANSWERS = "No chat model is set: these passages match best."
COMMAND = [sys.executable, "-c", "from ragwright.app import main; main()"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which the demo was run, and what it printed; others go on with its project."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, demo(COMMAND, folder)


def test_the_demo_answers_three_questions(shown: tuple[Path, str]) -> None:
    folder, printed = shown
    assert printed.count(NO_ANSWERS) == 3
    assert "Try next" in printed
    assert "0 added" in demo(COMMAND, folder)


def needed(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """The installed packages that these requirements ask for, and all that those ask for."""
    found: dict[str, metadata.Distribution] = {}
    asked = [(Requirement(line), "") for line in requirements]
    while asked:
        one, extra = asked.pop()
        if one.marker and not one.marker.evaluate({"extra": extra}):
            continue
        package = metadata.distribution(one.name)
        for extra in one.extras or {""}:
            if f"{package.name}[{extra}]" not in found:
                found[f"{package.name}[{extra}]"] = package
                asked += [(Requirement(line), extra) for line in package.requires or ()]
    return found


def test_the_wheel_alone_runs_the_demo_in_an_empty_folder(tmp_path: Path) -> None:
    """It sees nothing but the wheel and, linked from here, the packages that the wheel asks for."""
    pip = [sys.executable, "-m", "pip"]
    building = ["--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    subprocess.run([*pip, "wheel", "--quiet", *building], check=True)
    [wheel] = tmp_path.glob("ragwright-*.whl")
    venv.create(tmp_path / "fresh", with_pip=False)
    fresh = tmp_path / "fresh" / "bin"
    pip += ["--python", str(fresh / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", wheel], check=True)
    [installed] = (tmp_path / "fresh").rglob("site-packages")
    [about] = metadata.distributions(path=[str(installed)])
    here = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    for package in needed(about.requires or []).values():
        parts = {str(file).partition("/")[0] for file in package.files or ()}
        for part in parts - {"..", "__pycache__"}:
            [found] = [folder / part for folder in here if (folder / part).exists()]
            if not (installed / part).exists():
                (installed / part).symlink_to(found)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert demo([str(fresh / "ragwright")], empty).count(NO_ANSWERS) == 3
    # its project file has the section `serve`, whose options need no extra
    subprocess.run([fresh / "ragwright", "doctor"], cwd=empty / "ragwright-demo", check=True)


def test_the_full_demo_ends_in_a_verdict_and_a_report(
    shown: tuple[Path, str], tmp_path: Path
) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(shown[0] / "ragwright-demo", folder)
    ragwright(folder, "synth", "-q", "-n", "16", "-o", "testsets/demo.jsonl")
    printed = ragwright(tmp_path, "demo", "demo", "--full").stdout
    [told] = re.findall(r"# ragwright confirm \(.*\)\n+(.*)", printed)
    assert "# ragwright report" in printed
    assert "src=http" not in (folder / "report.html").read_text("utf-8")
    openings = folder / "testsets" / "openings.jsonl"
    opened = openings.read_text() if openings.exists() else ""
    again = ragwright(tmp_path, "demo", "demo", "--full", "--quiet").stdout
    assert told in again
    assert opened == (openings.read_text() if openings.exists() else "")
