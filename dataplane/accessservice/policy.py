"""The operator's policy: who may use which workspace through which route ("Policy of `gateway-access`", CONTRACT)."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from common.routetable.problems import Problem, below
from dataplane.access.protocol import DenialReason
from dataplane.access.strict_json import strict_json
from dataplane.accessservice.question import Question

POLICY_MAX_BYTES = 8 * 1_048_576
"""Some hundred thousand grants; a path such as /dev/zero is read no further."""

ANY = "*"

_Name = Annotated[str, Field(min_length=1, max_length=512)]


class PolicyInvalid(Exception):
    """The policy was refused as a whole. `problems` holds every reason with its JSON path."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy says to a question. The codes are those of the protocol; an allow has none."""

    allow: bool
    reason: str = ""
    reason_code: DenialReason | Literal[""] = ""


ALLOWED = Ruling(True)
NO_GRANT = Ruling(False, "no grant names this subject for this workspace and route", "access_denied")
NO_ROLE = Ruling(False, "the subject holds none of the roles that this workspace and route ask for", "missing_role")


class Grant(BaseModel):
    """Lets `subjects` and the holders of any of `roles` use `workspace` through `route`.

    `workspace` absent speaks of questions that name none; `*` of those that name any.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    workspace: _Name | None = None
    route: _Name
    subjects: list[_Name] = []
    roles: list[_Name] = []

    @field_validator("workspace", mode="before")
    @classmethod
    def _absent_rather_than_null(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("null", "must not be null: leave the field out to speak of requests without one")
        return value

    @field_validator("subjects", "roles")
    @classmethod
    def _names_only(cls, names: list[str]) -> list[str]:
        if ANY in names:
            raise PydanticCustomError("wildcard", "holds *, which is no wildcard here: name each one")
        return names

    @model_validator(mode="after")
    def _grants_to_someone(self) -> Grant:
        if not self.subjects and not self.roles:
            raise PydanticCustomError("nobody", "grants nothing to anyone: name subjects, roles or both")
        return self


@dataclass(slots=True)
class _Granted:
    """All that the grants of one workspace and route let in."""

    subjects: set[str]
    roles: set[str]


class Policy(BaseModel):
    """A whole policy; immutable. Deciding takes four look-ups, however many grants there are."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Annotated[int, Field(ge=1, le=1)]
    grants: list[Grant]

    _granted: dict[tuple[str | None, str], _Granted] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        del context
        for grant in self.grants:
            granted = self._granted.setdefault((grant.workspace, grant.route), _Granted(set(), set()))
            granted.subjects.update(grant.subjects)
            granted.roles.update(grant.roles)

    def rule(self, asked: Question) -> Ruling:
        """Allowed when a grant matches and lists the subject or a role that is held; else a denial with its code:
        `missing_role` where a grant for that workspace and route has roles, `access_denied` otherwise.
        """
        some_role_would_do = False
        for granted in self._matching(asked):
            if asked.subject in granted.subjects or not granted.roles.isdisjoint(asked.roles):
                return ALLOWED
            some_role_would_do = some_role_would_do or bool(granted.roles)
        return NO_ROLE if some_role_would_do else NO_GRANT

    def _matching(self, asked: Question) -> list[_Granted]:
        workspaces = (None,) if asked.workspace_id is None else (asked.workspace_id, ANY)
        found = (self._granted.get((workspace, route)) for workspace in workspaces for route in (asked.route_id, ANY))
        return [granted for granted in found if granted is not None]


def read_policy(text: bytes) -> Policy:
    """The policy that a file holds. Raises `PolicyInvalid` with every problem at once."""
    if len(text) > POLICY_MAX_BYTES:
        raise PolicyInvalid((Problem("", f"is larger than {POLICY_MAX_BYTES} bytes"),))
    try:
        document = strict_json(text)
    except ValueError as error:
        raise PolicyInvalid((Problem("", f"is not valid JSON: {error}"),)) from None
    try:
        return Policy.model_validate(document)
    except ValidationError as error:
        raise PolicyInvalid(tuple(_problem(detail) for detail in error.errors(include_url=False))) from None


_MESSAGES = {
    "missing": "is required",
    "model_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "is longer than 512 characters",
    "int_type": "must be 1",
    "greater_than_equal": "must be 1",
    "less_than_equal": "must be 1",
}
_FIELDS = sorted({*Policy.model_fields, *Grant.model_fields})


def _problem(detail: ErrorDetails) -> Problem:
    path = ""
    for step in detail["loc"]:
        path = f"{path}[{step}]" if isinstance(step, int) else below(path, step)
    kind = detail["type"]
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(detail["loc"][-1])[:64], _FIELDS, n=1)
        return Problem(path, "is unknown" + (f"; did you mean {close[0]}?" if close else ""))
    return Problem(path, _MESSAGES.get(kind, detail["msg"]))
