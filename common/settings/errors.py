"""What a wrong environment is reported as."""

from __future__ import annotations


class SettingsInvalid(Exception):
    """The environment is wrong. `problems` holds every problem, each naming its variable and what to do about it.

    No problem repeats a value: what stands in the wrong variable may be a secret.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
