"""Steps of installed packages: functions of a project that a job runs as `job step NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core import JobError, RagwrightError, load_addition
from ..project import Project


def run_added_step(name: str, arguments: Sequence[str], folder: Path) -> int:
    """Run a step on a project; its exit code.

    A step is a function of the opened :class:`Project` and its arguments, a tuple of texts. It
    returns an exit code, or None for success, and prints what the history of jobs should show.

    Raises:
        PluginError: The step does not exist, or cannot be imported.
        JobError: It fails, or returns something that is not an exit code.
    """
    step = load_addition("steps", name, where=f"job step {name}")
    with Project.open(folder) as project:
        try:
            code = step(project, tuple(arguments))
        except RagwrightError:
            raise
        except Exception as error:
            raise JobError(
                f"the step {name!r} failed: {type(error).__name__}: {error}",
                where=f"job step {name}",
            ) from error
    if code is None:
        return 0
    if not isinstance(code, int) or not 0 <= code <= 255:
        raise JobError(
            f"the step {name!r} returned {code!r:.80}, not an exit code",
            where=f"job step {name}",
            hint="return None, or a number from 0 to 255",
        )
    return code
