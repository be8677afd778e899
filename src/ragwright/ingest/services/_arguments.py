"""Arguments of loaders and file systems: secrets come from the environment and are never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core import ConfigError

_HIDDEN = "…"
_SHORTEST = 4
"""Fewest characters of a secret that is looked for in a message."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments with their secrets filled in.

    Attributes:
        values: What is passed on.
        secrets: Values that came from the environment.
    """

    values: Mapping[str, Any]
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, declared: Mapping[str, Any], where: str) -> Arguments:
        """Replace each ``{env: NAME}`` in arguments by the value of that environment variable.

        Raises:
            ConfigError: A variable is not set.
        """
        secrets: list[str] = []
        values = {name: _filled(value, where, secrets) for name, value in declared.items()}
        return cls(values, tuple(secrets))

    def masked(self, error: BaseException | str) -> str:
        """Remove the secrets from a message; an exception's type is added."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        for secret in self.secrets:
            if len(secret) >= _SHORTEST:
                text = text.replace(secret, _HIDDEN)
        return " ".join(text.split())


def _filled(value: Any, where: str, secrets: list[str]) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"env"} and isinstance(value["env"], str):
            return _of_environment(value["env"], where, secrets)
        return {key: _filled(inner, where, secrets) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, where, secrets) for inner in value]
    return value


def _of_environment(name: str, where: str, secrets: list[str]) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ConfigError(
            f"the environment variable {name} is not set",
            where=where,
            hint=f"export {name}=…",
        )
    secrets.append(value)
    return value
