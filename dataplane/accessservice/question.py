"""A request of the protocol, read strictly: an engineer who writes a gateway learns at once what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from dataplane.access.strict_json import strict_json

REQUEST_MAX_BYTES = 262_144
"""A gateway that reads heads of 32 KiB asks far shorter questions; roles of a session may take some more."""


class QuestionInvalid(Exception):
    """The body is no question. `problems` names each field that is wrong, and never repeats a value."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Question:
    """May `subject`, holding `roles`, use the workspace (None: the request names none) through the route?"""

    subject: str
    workspace_id: str | None
    route_id: str
    roles: tuple[str, ...]


def read_question(body: bytes) -> Question:
    """The question that a body asks. Raises `QuestionInvalid` with every problem.

    Fields that are not known are ignored: the protocol is extended and never changed (§14.2), so a newer gateway may
    say more, and still means the same by what is known.
    """
    try:
        asked = strict_json(body)
    except ValueError as error:
        raise QuestionInvalid(f"the body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise QuestionInvalid("the body must be an object")
    problems = [
        *_text_problems(asked, "subject", required=True),
        *_text_problems(asked, "workspaceId", required=False),
        *_text_problems(asked, "routeId", required=True),
        *_role_problems(asked.get("roles")),
    ]
    if problems:
        raise QuestionInvalid(*problems)
    return Question(asked["subject"], asked.get("workspaceId"), asked["routeId"], tuple(asked["roles"]))


def _text_problems(asked: dict[str, object], name: str, *, required: bool) -> list[str]:
    if name not in asked:
        return [f"{name} is required"] if required else []
    value = asked[name]
    if not isinstance(value, str):
        absent = "" if required else "; leave it out where there is none"
        return [f"{name} must be a string{absent}"]
    return [] if value else [f"{name} must not be empty"]


def _role_problems(roles: object) -> list[str]:
    if isinstance(roles, list) and all(isinstance(role, str) for role in roles):
        return []
    return ["roles must be a list of strings, [] where there are none"]
