"""`ragwright doctor`."""

from __future__ import annotations

from dataclasses import asdict

from typer import Option

from ..project import project_keys
from ._console import EXIT_ERROR
from ._flags import Flags, takes
from ._show import checks_text
from .serving import line_problem


@takes("project overrides as_json")
def command(
    flags: Flags,
    show_keys: bool = Option(False, "--keys", help="List every key of a project file."),
    ask_models: bool = Option(
        False, "--ask-models", help="Also ask each server whether it has the model."
    ),
) -> int:
    """Show what is configured and what is missing.

    It says, too, what would cost money.
    """
    if show_keys:
        names = ("key", "when", "default", "meaning")
        keys = list(project_keys())
        flags.console.show(
            lambda: {"keys": [dict(zip(names, key, strict=True)) for key in keys]},
            lambda: "\n".join(
                f"{name} = {default!r}   ({when})\n    {text}" for name, when, default, text in keys
            ),
        )
        return 0
    with flags.open() as bench:
        checks = bench.doctor(ask_models=ask_models, check_line=line_problem)
    flags.console.show(
        lambda: {"checks": [asdict(check) for check in checks]}, lambda: checks_text(checks)
    )
    return EXIT_ERROR if any(check.state == "fault" for check in checks) else 0
