"""The names of all programs: they may share one environment."""

from __future__ import annotations

from common.settings.acme import CHALLENGES
from common.settings.control_variables import CONTROL
from common.settings.variables import VARIABLES

KNOWN = frozenset(
    name
    for variable in (*VARIABLES, *CHALLENGES.variables, *CONTROL.variables)
    for name in ((variable.name, f"{variable.name}_FILE") if variable.secret else (variable.name,))
)
